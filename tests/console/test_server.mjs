// `holdfast serve` on a directory of its own, and the CLI and HTTP against it.

import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/// Waits until `check` gives something true, and gives that. Throws with its last error or answer.
export async function until(what, check, seconds = 60) {
  let last;
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(50)) {
    try {
      last = await check();
      if (last) return last;
    } catch (e) {
      last = e;
    }
  }
  throw new Error(
    `${what}: not within ${seconds} s (last: ${last instanceof Error ? last.message : last})`,
  );
}

export class TestServer {
  constructor(bin) {
    this.bin = bin;
    this.dir = mkdtempSync(join(tmpdir(), 'holdfast-console-'));
    this.state = join(this.dir, 'state');
  }

  async start(flags) {
    this.serve = spawn(
      join(this.bin, 'holdfast'),
      ['--state', this.state, 'serve', '--http', '127.0.0.1:0', ...flags],
      {stdio: ['ignore', 'pipe', 'inherit']},
    );
    let said = '';
    this.serve.stdout.on('data', (data) => {
      said += data;
    });
    this.ended = new Promise((resolve) => this.serve.once('exit', resolve));
    this.url = (
      await until('the ready line', () => {
        if (this.serve.exitCode !== null)
          throw new Error(`serve ended with ${this.serve.exitCode}`);
        return /^ready (\S+)$/m.exec(said);
      })
    )[1];
  }

  async stop() {
    this.serve.kill('SIGTERM');
    const code = await this.ended;
    if (code !== 0) throw new Error(`serve ended with ${code}`);
  }

  remove() {
    this.serve?.kill('SIGKILL');
    rmSync(this.dir, {recursive: true, force: true});
  }

  /// The document of `holdfast --json ARGS…`.
  cli(...args) {
    return JSON.parse(
      execFileSync(join(this.bin, 'holdfast'), ['--state', this.state, '--json', ...args], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    );
  }

  pid(name) {
    const {children} = JSON.parse(readFileSync(join(this.state, 'run/supervisor.json'), 'utf8'));
    return children.find((child) => child.name === name)?.pid;
  }

  signal(name, signal = 'SIGKILL') {
    const pid = this.pid(name);
    process.kill(pid, signal);
    return pid;
  }

  /// POST; the answer as an object. `tokens` are asked for of the demo model.
  async complete(prompt, tokens, more = {}, headers = {}) {
    const response = await fetch(`${this.url}/v1/completions`, {
      method: 'POST',
      headers: {'Content-Type': 'application/json', ...headers},
      body: JSON.stringify({model: 'demo', prompt, max_tokens: tokens, ...more}),
    });
    return {
      status: response.status,
      id: response.headers.get('x-request-id'),
      body: await response.json(),
    };
  }

  /// All log files, as one text.
  logs() {
    const dir = join(this.state, 'logs');
    return readdirSync(dir)
      .map((name) => readFileSync(join(dir, name), 'utf8'))
      .join('');
  }
}

/// `holdfast node` with a state directory of its own, joined to a server that listens.
export class TestNode {
  /// `before`: a node of this name that has ended, whose key this one takes over.
  constructor(server, name, before) {
    Object.assign(this, {server, name});
    this.key = before?.key ?? join(server.dir, `${name}.key`);
    if (!before) server.cli('keys', 'node', 'create', name, '--out', this.key);
  }

  async start(flags) {
    const listener = readFileSync(join(this.server.state, 'run/listen'), 'utf8').trim();
    const state = join(this.server.dir, this.name);
    this.node = spawn(
      join(this.server.bin, 'holdfast'),
      ['--state', state, 'node', '--join', listener, '--key', this.key, ...flags],
      {stdio: ['ignore', 'pipe', 'ignore']},
    );
    let said = '';
    this.node.stdout.on('data', (data) => {
      said += data;
    });
    this.ended = new Promise((resolve) => this.node.once('exit', resolve));
    await until('the node', () => {
      if (this.node.exitCode !== null) throw new Error(`node ended with ${this.node.exitCode}`);
      return said.includes(`joined ${this.name}`);
    });
    return this;
  }

  async end(signal) {
    this.node.kill(signal);
    await this.ended;
  }
}
