// A server of one file on loopback, as slow as it is told to be.

import {readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {basename} from 'node:path';

import {sleep} from './test_server.mjs';

const kPart = 16384;

export class FileServer {
  /// bytesPerSecond: 0: as fast as it goes.
  constructor(path, bytesPerSecond) {
    Object.assign(this, {content: readFileSync(path), name: basename(path), bytesPerSecond});
    this.server = createServer((request, response) => this.answer(request, response));
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/${this.name}`;
    return this;
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  async answer(request, response) {
    const from = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const {length} = this.content;
    response.writeHead(request.headers.range ? 206 : 200, {
      'Content-Length': length - from,
      ...(request.headers.range && {'Content-Range': `bytes ${from}-${length - 1}/${length}`}),
    });
    if (request.method === 'HEAD') return response.end();
    for (let at = from; at < length && !response.destroyed; at += kPart) {
      response.write(this.content.subarray(at, at + kPart));
      if (this.bytesPerSecond > 0) await sleep((1000 * kPart) / this.bytesPerSecond);
    }
    response.end();
  }
}
