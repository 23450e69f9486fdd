// Goal: in a real browser every panel of the console shows what the CLI says of the same server,
// every action does what it says, a chat goes on over the loss of daemon, gateway and page with the
// text of an undisturbed one, keys open it to operators alone and are found nowhere else, and it can
// be used without a mouse. Method: chromium on a real server that computes with the slow kernels, so
// that there is time to kill in; no request may leave the server's address, no message may come from
// the page's own code.

import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {parseArgs} from 'node:util';

import {FileServer} from './file_server.mjs';
import {TestNode, TestServer, sleep, until} from './test_server.mjs';
import {takePictures} from './pictures.mjs';

const {values: options} = parseArgs({
  options: {
    bin: {type: 'string'},
    modules: {type: 'string'},
    model: {type: 'string'},
    screenshots: {type: 'string'},
    browser: {type: 'string', default: '/usr/bin/chromium'},
  },
});
const {chromium} = createRequire(join(options.modules, 'node_modules/'))('playwright-core');

const server = new TestServer(options.bin);
const browser = await chromium.launch({executablePath: options.browser, args: ['--no-sandbox']});
const faults = [];

/// A page that notes whatever it should not do.
async function open(path, settings = {}) {
  const context = await browser.newContext({
    viewport: {width: 1280, height: 900},
    locale: 'en-GB',
    ...settings,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  page.on('pageerror', (error) => faults.push(`${path}: ${error.stack}`));
  page.on('console', (message) => {
    // Chromium itself notes every answer that is an error; those are looked at where they show.
    if (!message.text().startsWith('Failed to load resource'))
      faults.push(`${path}: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${server.url}/`) && !request.url().startsWith('data:')) {
      faults.push(`${path}: asked for ${request.url()}`);
    }
  });
  await page.goto(`${server.url}/console#/${path}`);
  return page;
}

const go = (page, name) => page.getByRole('navigation').getByRole('link', {name}).click();
const table = (page, name) => page.getByRole('table', {name});
const row = (page, name, text) => table(page, name).getByRole('row').filter({hasText: text});

/// A row's cells by the titles of their columns.
async function cells(line) {
  return Object.fromEntries(
    await line
      .getByRole('cell')
      .evaluateAll((nodes) => nodes.map((node) => [node.dataset.title, node.textContent])),
  );
}

/// Presses the button of an action, says yes, and sees that it was done.
async function act(page, button, {fill, choose} = {}) {
  await page.getByRole('button', {name: button, exact: true}).click();
  const dialog = page.getByRole('dialog');
  if (fill !== undefined) await dialog.getByRole('textbox').fill(fill);
  if (choose !== undefined) await dialog.getByRole('combobox').selectOption(choose);
  await dialog.locator('#ask-yes').click();
  await dialog.waitFor({state: 'hidden'});
}

const steps = [];
const step = (name, run) => steps.push([name, run]);

// ---- panels and actions, without a key

let page;

step('status shows what the CLI says', async () => {
  await Promise.all([5, 6, 7].map((n) => server.complete('Once more unto', n)));
  page = await open('status');
  await until('the same in both', async () => {
    await compareStatus();
    return true;
  });
});

/// A page is up to two seconds older than what the CLI says.
async function compareStatus() {
  const status = server.cli('status');
  const [model] = status.models;
  const [worker] = status.workers;
  const [device] = status.devices;
  await row(page, 'Models', 'demo').waitFor();
  const shown = await cells(row(page, 'Models', 'demo'));
  assert.equal(shown.state, model.state);
  assert.equal(shown.running, `0/${model.loads[0].slots}`);
  assert.match(
    shown.what,
    new RegExp(`^${model.architecture}, context ${model.context}, ${model.kv_type}$`),
  );
  const mib = (n) => `${(n / 1048576).toFixed(1)} MiB`;
  assert.equal(
    shown.memory,
    `weights ${mib(model.loads[0].weights_bytes)}, KV ${mib(model.loads[0].kv_bytes)}, ` +
      `scratch ${mib(model.loads[0].scratch_bytes)}`,
  );
  const one = await cells(row(page, 'Workers', worker.key));
  assert.equal(one.state, worker.state);
  assert.equal(one.device, `cpu, ${worker.kernels}, 1 thread`);
  assert.equal(one.sequences, `running 0, free ${worker.slots}`);
  assert.equal(one['KV pages'], `used 0, free ${worker.pages}`);
  const memory = await cells(row(page, 'Memory of the devices', device.device));
  const gib = (n) => `${(n / 2 ** 30).toFixed(1)} GiB`;
  assert.equal(memory.total, gib(device.total_bytes));
  assert.match(
    memory.planned,
    new RegExp(
      `^reserved by loads ${mib(device.reserved_bytes)}, left for loads ${gib(device.unreserved_bytes)}`,
    ),
  );
  const track = page.getByRole('img', {name: /^planned: reserved by loads/});
  const widths = await track.evaluate((node) =>
    [...node.children].map((part) => part.getBoundingClientRect().width),
  );
  const whole = (await track.boundingBox()).width;
  assert.ok(
    Math.abs(widths[2] / whole - (1 - device.reservable_bytes / device.total_bytes)) < 0.02,
    `bars ${widths} of ${whole}`,
  );
  assert.equal(await page.getByText('No problems.').count(), status.problems.length === 0 ? 1 : 0);
  const tiles = await page.locator('.tile').allTextContents();
  assert.ok(
    tiles.some(
      (text) =>
        text.startsWith('running0') && text.includes(`${status.counters.succeeded} succeeded`),
    ),
    String(tiles),
  );
}

step('plots have a text, a table and a cursor', async () => {
  const plot = page.getByRole('img', {name: /^Tokens in per second/});
  await until(
    'a rate',
    async () => !/no values|highest 0\./.test(await plot.getAttribute('aria-label')),
  );
  await server.complete('More', 12);
  await until('a time to the first token', async () =>
    /highest \d/.test(
      await page.getByRole('img', {name: /^Time to first token/}).getAttribute('aria-label'),
    ),
  );
  assert.equal(await page.getByRole('img', {name: /up to an hour/}).count(), 5);
  await page.getByText('as a table').first().click();
  await until(
    'a table',
    async () => (await page.getByRole('table', {name: 'Tokens'}).getByRole('row').count()) > 1,
  );
  await plot.focus();
  await page.keyboard.press('ArrowLeft');
  assert.match(await page.locator('.readout').first().textContent(), /^\d\d:\d\d:\d\d {2}tokens /);
  assert.match(await page.locator('#view-status .hint').first().textContent(), /less than an hour/);
});

step('models are unloaded, loaded and pinned', async () => {
  const state = () => server.cli('models', 'show', 'demo');
  await act(page, 'Pin demo');
  assert.equal(state().pinned, true);
  await act(page, 'Unpin demo');
  assert.equal(state().pinned, false);
  await act(page, 'Unload demo');
  await until('unloaded', () => state().state === 'unloaded');
  await page.getByRole('button', {name: 'Load demo'}).waitFor();
  await act(page, 'Load demo');
  await until('ready', () => state().state === 'ready');
  await row(page, 'Models', 'demo').filter({hasText: 'ready'}).waitFor();
});

step('a worker is drained and resumed', async () => {
  const state = () => server.cli('workers', 'list').workers[0].state;
  await act(page, 'Drain worker-0');
  assert.equal(state(), 'draining');
  await row(page, 'Workers', 'draining').waitFor();
  await act(page, 'Resume worker-0');
  assert.equal(state(), 'ready');
});

const held = [];
step('the queue is paused, shown in its order, moved and cancelled', async () => {
  await go(page, 'Queue');
  await act(page, 'Pause dispatch');
  assert.equal(server.cli('queue', 'stats').paused, true);
  for (const prompt of ['First', 'Second', 'Third']) {
    held.push(server.complete(prompt, 3));
    await until(
      'queued',
      () => server.cli('requests', 'list', '--with-state', 'queued').requests.length === held.length,
    );
  }
  const ids = server
    .cli('requests', 'list', '--with-state', 'queued')
    .requests.map((r) => r.id)
    .reverse();
  const lines = table(page, 'Waiting requests, the oldest first').locator('tbody').getByRole('row');
  await until('three lines', async () => (await lines.count()) === 3);
  for (let i = 0; i < 3; ++i) {
    const shown = await cells(lines.nth(i));
    assert.equal(shown.request, ids[i]);
    assert.equal(shown['before it'], String(i));
    assert.equal(shown.priority, 'normal');
  }
  const line = await cells(row(page, 'Waiting and running', 'demo'));
  assert.deepEqual(
    [line.model, line.tenant, line.priority, line.waiting],
    ['demo', 'default', 'normal', '3'],
  );
  await act(page, `Move request ${ids[0]}`, {choose: 'batch'});
  assert.equal(server.cli('requests', 'show', ids[0]).priority, 2);
  await until(
    'its new place',
    async () => (await cells(lines.filter({hasText: ids[0]})))['before it'] === '2',
  );
  await act(page, `Cancel request ${ids[1]}`);
  assert.equal(server.cli('requests', 'show', ids[1]).state, 'cancelled');
  await until('two lines', async () => (await lines.count()) === 2);
  await act(page, 'Resume dispatch');
  await Promise.all(held);
  assert.deepEqual(
    ids.map((id) => server.cli('requests', 'show', id).state),
    ['succeeded', 'cancelled', 'succeeded'],
  );
  const limits = server.cli('status').limits.find((l) => l.name === 'queue.max_requests');
  assert.equal(
    (await cells(row(page, 'Bounds', 'queue.max_requests'))).limit,
    limits.limit.toLocaleString('en'),
  );
});

step('requests are searched, and one is shown with every attempt', async () => {
  const running = server.complete('<img src=x onerror=alert(1)>', 80);
  await until(
    'it runs',
    () => server.cli('requests', 'list', '--with-state', 'running').requests[0]?.tokens > 2,
  );
  server.signal('worker-0');
  const {id} = await running;
  await go(page, 'Requests');
  await page.getByLabel('id, or a part of it', {exact: true}).fill(id.slice(6));
  await page.getByRole('button', {name: 'Search'}).click();
  const rows = table(page, 'Requests, the newest first').locator('tbody').getByRole('row');
  await until('one row', async () => (await rows.count()) === 1);
  const told = server.cli('requests', 'show', id);
  const shown = await cells(rows.first());
  assert.deepEqual(
    [shown.request, shown.state, shown.tokens, shown.attempts],
    [id, told.state, `${told.tokens}/80`, String(told.attempts.length)],
  );
  assert.ok(told.attempts.length >= 2, 'the worker was killed');
  await rows.first().getByRole('link').click();
  await page.getByRole('heading', {name: `Request ${id}`}).waitFor();
  const attempts = table(page, 'Attempts, in their order').locator('tbody').getByRole('row');
  assert.equal(await attempts.count(), told.attempts.length);
  for (const [i, attempt] of told.attempts.entries()) {
    const one = await cells(attempts.nth(i));
    assert.equal(one.worker, attempt.worker_key);
    assert.equal(one.tokens, `${attempt.start_index} to ${attempt.end_index ?? '…'}`);
    assert.equal(one['ended by'], attempt.reason || '–');
    assert.equal(one.fence, `${attempt.fence_epoch}.${attempt.fence_counter}`);
  }
  const timeline = page.getByRole('img', {name: /^Timeline of/});
  assert.equal(await timeline.locator('rect').count(), told.attempts.length + 1);
  await page.getByLabel('id, or a part of it', {exact: true}).fill('');
  await page.getByLabel('state', {exact: true}).selectOption('cancelled');
  await page.getByRole('button', {name: 'Search'}).click();
  await until(
    'the cancelled one',
    async () => (await rows.count()) === 1 && (await cells(rows.first())).state === 'cancelled',
  );
  await page.getByLabel('state', {exact: true}).selectOption('');
  await page.getByRole('button', {name: 'Search'}).click();
  for (let i = 0; i < 27; i += 9)
    await Promise.all(Array.from({length: 9}, () => server.complete('x', 1)));
  const all = server.cli('requests', 'list', '--limit', '1000').requests.map((r) => r.id);
  await until(
    'a whole page',
    async () => (await rows.count()) === 25 && (await cells(rows.first())).request === all[0],
  );
  await page.getByRole('button', {name: 'Older'}).click();
  await until('the rest', async () => (await cells(rows.first())).request === all[25]);
  assert.equal(await rows.count(), all.length - 25);
  await page.getByRole('button', {name: 'Newer'}).click();
});

step('a model is pulled, cancelled and pulled again', async () => {
  const files = await new FileServer(options.model, 200e3).start();
  const line = () => row(page, 'Pulls', 'fetched');
  await go(page, 'Pulls');
  await page.getByText('Nothing was pulled.').waitFor();
  const source = page.getByLabel('Source', {exact: true});
  await source.fill('nothing that can be');
  await page.getByRole('button', {name: 'Pull', exact: true}).click();
  await page.getByRole('alert').getByText(/source/).waitFor();
  await source.fill(files.url);
  await page.getByLabel(/^Name/).fill('fetched');
  await page.getByLabel('load it when it is there').check();
  await page.getByRole('button', {name: 'Pull', exact: true}).click();
  await line().getByText('downloading').waitFor();
  await until('a rate', async () => / (B|KiB|MiB)\/s/.test((await cells(line())).rate));
  const bar = page.getByRole('progressbar', {name: 'progress of fetched'});
  assert.equal(server.cli('jobs', 'show', 'fetched').state, 'downloading');
  assert.match((await cells(line())).progress, /[1-9].* (KiB|MiB)/);
  await act(page, 'Cancel fetched');
  await line().getByText('cancelled').waitFor();
  assert.equal(server.cli('jobs', 'show', 'fetched').state, 'cancelled');
  files.bytesPerSecond = 0;
  await act(page, 'Pull again fetched');
  await line().getByText('done').waitFor();
  assert.equal(await bar.evaluate((n) => n.value), 1);
  assert.equal((await cells(line())).progress, '4.3 MiB of 4.3 MiB');
  assert.equal((await cells(line())).what.split(';')[0], server.cli('jobs', 'show', 'fetched').path);
  await until('it is loaded', () => server.cli('models', 'show', 'fetched').state === 'ready');
  server.cli('models', 'unload', 'fetched');
  server.cli('models', 'remove', 'fetched');
  await files.stop();
});

step('a node is joined, shown, drained, resumed, lost and found', async () => {
  await go(page, 'Nodes');
  await page.getByText('No node has joined').waitFor();
  await page.getByText(/holdfast keys node create gpu-1/).waitFor();
  assert.equal(await table(page, 'Nodes').isVisible(), false);
  let node = await new TestNode(server, 'far').start(['--threads', '1', '--kernels', 'scalar']);
  const line = () => row(page, 'Nodes', 'far');
  const said = () => server.cli('nodes', 'show', 'far');
  await line().getByText('ready', {exact: true}).waitFor();
  await until('its worker', async () => (await cells(line())).workers === '1 of 1 ready');
  const worker = server.cli('workers', 'list').workers.find((w) => w.key === 'far/worker-0');
  const shown = await cells(line());
  assert.equal(shown.devices, `${worker.device}, ${worker.kernels || worker.engine}`);
  assert.match(shown.heard, /^[\d.]+ m?s ago$/);
  assert.match(shown.memory, /used by workers .*, by others .*, free .*/);
  // It was given no folder with models.
  await until('what it lacks', async () => (await cells(line())).lacks === 'demo');
  assert.equal(await page.getByText('No node has joined').isVisible(), false);
  await line().getByRole('link', {name: 'far'}).click();
  await page.getByRole('heading', {name: 'Node far'}).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'node-title');
  await row(page, 'Workers of the node', 'far/worker-0').waitFor();
  await row(page, 'Models on the node', /has no file with this content/).waitFor();
  const fact = (name) =>
    page.locator('#view-nodes dt', {hasText: name}).locator('xpath=following-sibling::dd[1]');
  assert.equal(await fact('host').textContent(), said().host);
  assert.equal(await fact('version').textContent(), said().version);
  await page.getByRole('link', {name: 'Close'}).click();
  await page.getByRole('heading', {name: 'Node far'}).waitFor({state: 'hidden'});
  await page.getByRole('button', {name: 'Drain far'}).click();
  await page.getByRole('dialog', {name: 'Drain the node far?'}).waitFor();
  await page.getByRole('button', {name: 'Keep as it is'}).click();
  assert.equal(said().state, 'ready', 'nothing happens without a yes');
  await act(page, 'Drain far');
  assert.equal(said().state, 'draining');
  await line().getByText('draining').waitFor();
  await act(page, 'Resume far');
  assert.equal(said().state, 'ready');
  await line().getByText('ready', {exact: true}).waitFor();
  await node.end('SIGKILL');
  await line().getByText('lost').waitFor();
  await until('no worker', async () => (await cells(line())).workers === 'none');
  node = await new TestNode(server, 'far', node).start(['--threads', '1', '--kernels', 'scalar']);
  await line().getByText('ready', {exact: true}).waitFor();
  await node.end('SIGTERM');
  await line().getByText('left').waitFor();
});

step('config is explained, set, refused and rolled back', async () => {
  await go(page, 'Config');
  await page.getByLabel('name or words', {exact: true}).fill('max_requests');
  await page.getByRole('button', {name: 'Explain queue.max_requests'}).click();
  await page.getByRole('heading', {name: 'queue.max_requests'}).waitFor();
  const knob = server.cli('config', 'explain', 'queue.max_requests');
  await page.getByText(knob.help).first().waitFor();
  await act(page, 'Set queue.max_requests', {fill: '4321'});
  assert.equal(server.cli('config', 'get', 'queue.max_requests').value, 4321);
  const first = server.cli('config', 'history').version;
  await act(page, 'Set queue.max_requests', {fill: '5432'});
  await page.getByRole('button', {name: 'Set queue.max_requests', exact: true}).click();
  await page.getByRole('dialog').getByRole('textbox').fill('-7');
  await page.locator('#ask-yes').click();
  await page.locator('#ask-error').getByText('invalid_request').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('4,321 to 5,432').waitFor();
  await act(page, `Roll back version ${first}`);
  assert.equal(server.cli('config', 'get', 'queue.max_requests').value, 4321);
  const history = server.cli('config', 'history').history;
  assert.equal(history[0].who, 'console');
  const lines = table(page, 'Versions, the newest first').locator('tbody').getByRole('row');
  await until('every version', async () => (await lines.count()) === history.length);
  await act(page, 'Back to the defaults to version 0');
  assert.equal(server.cli('config', 'get', 'queue.max_requests').source, 'default');
  const list = server.cli('config', 'list').config.length;
  await page.getByLabel('name or words', {exact: true}).fill('');
  await page.getByText(`${list} of ${list} knobs`).waitFor();
});

// ---- chat

/// Asks in the playground and returns the whole answer; `disturb` runs in mid-answer.
async function chat(text, disturb) {
  await page.getByRole('button', {name: 'New conversation'}).click();
  await page.getByLabel('tokens at most', {exact: true}).fill('90');
  await page.getByLabel('seed', {exact: true}).fill('11');
  await page.getByLabel('Message', {exact: true}).fill(text);
  await page.keyboard.press('Enter');
  if (disturb) {
    await until(
      'some text',
      async () =>
        (await page.locator('.message.assistant > .text').last().textContent()).length > 20,
    );
    await disturb();
  }
  await page.locator('.chat-state').getByText(/^Done/).waitFor({timeout: 120000});
  return page.locator('.message.assistant > .text').last().textContent();
}

let undisturbed;
const kLine = '<script>alert("me")</script> Good morrow, noble sir';
step('a chat streams, and goes on over the loss of the daemon', async () => {
  await go(page, 'Chat');
  undisturbed = await chat(kLine);
  assert.ok(undisturbed.length > 80, undisturbed);
  assert.equal(await page.locator('.message.user > .text').textContent(), kLine);
  assert.match(
    await page.locator('.message.assistant .meta').textContent(),
    /90 tokens, prompt \d+, [\d.]+ per second/,
  );
  let pid;
  assert.equal(
    await chat(kLine, () => {
      pid = server.signal('daemon');
    }),
    undisturbed,
  );
  assert.notEqual(await until('another daemon', () => server.pid('daemon')), pid);
});

step('… of the gateway, of both, and of the page', async () => {
  assert.equal(await chat(kLine, () => server.signal('gateway')), undisturbed);
  assert.match(
    await page.locator('.message.assistant .meta').textContent(),
    /reconnected \d+ times/,
  );
  assert.equal(
    await chat(kLine, () => {
      server.signal('gateway');
      server.signal('daemon');
      server.signal('worker-0');
    }),
    undisturbed,
  );
  assert.equal(await chat(kLine, () => page.reload()), undisturbed);
});

step('a stopped answer is cancelled', async () => {
  await page.getByRole('button', {name: 'New conversation'}).click();
  await page.getByLabel('tokens at most', {exact: true}).fill('400');
  await page.getByLabel('Message', {exact: true}).fill('Speak on');
  await page.getByRole('button', {name: 'Send'}).click();
  await until(
    'some text',
    async () => (await page.locator('.message.assistant > .text').textContent()).length > 5,
  );
  await page.getByRole('button', {name: 'Stop'}).click();
  await page.locator('.chat-state').getByText('Stopped.').waitFor();
  const id = await page.locator('.message.assistant .meta a').textContent();
  assert.equal(server.cli('requests', 'show', id).state, 'cancelled');
});

step('a daemon that is away is said to be, and found again', async () => {
  await go(page, 'Status');
  server.signal('daemon', 'SIGSTOP');
  await page.getByText(/daemon is unreachable since/).waitFor();
  server.signal('daemon', 'SIGCONT');
  await page.getByText(/Connected again/).waitFor();
  await page
    .locator('#health')
    .getByText(/./)
    .waitFor({state: 'detached'})
    .catch(() => {});
});

// ---- keyboard and structure

step('it is used without a mouse', async () => {
  const keys = await open('status');
  await row(keys, 'Models', 'demo').waitFor();
  await keys.evaluate(() => document.activeElement.blur());
  await keys.keyboard.press('Tab');
  assert.equal(
    await keys.evaluate(() => document.activeElement.textContent),
    'Skip to the content',
  );
  await keys.keyboard.press('Enter');
  assert.equal(await keys.evaluate(() => document.activeElement.id), 'main');
  for (
    let i = 0;
    i < 40 &&
    !(await keys.evaluate(
      () => document.activeElement.getAttribute('aria-label') === 'Unload demo',
    ));
    ++i
  ) {
    await keys.keyboard.press('Tab');
  }
  await keys.keyboard.press('Enter');
  await keys.getByRole('dialog', {name: 'Unload demo?'}).waitFor();
  assert.equal(
    await keys.evaluate(() => document.activeElement.id),
    'ask-no',
    'the harmless button has the focus',
  );
  const ring = await keys.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(ring, 'solid');
  await keys.keyboard.press('Escape');
  await keys.getByRole('dialog').waitFor({state: 'hidden'});
  assert.equal(
    await keys.evaluate(() => document.activeElement.getAttribute('aria-label')),
    'Unload demo',
  );
  await sleep(2500);
  assert.equal(
    await keys.evaluate(() => document.activeElement.getAttribute('aria-label')),
    'Unload demo',
    'kept over a refresh',
  );
  for (const view of ['Status', 'Queue', 'Requests', 'Nodes', 'Pulls', 'Chat', 'Config']) {
    await go(keys, view);
    await keys.getByRole('heading', {level: 1}).waitFor();
    const wrong = await keys.evaluate(() =>
      [...document.querySelectorAll('input, select, textarea')]
        .filter((node) => node.labels.length === 0)
        .map((node) => node.id)
        .concat(
          [...document.querySelectorAll('[id]')]
            .map((node) => node.id)
            .filter((id, i, all) => all.indexOf(id) !== i),
        )
        .concat(
          [...document.querySelectorAll('[role=img]')]
            .filter((node) => node.checkVisibility() && !node.hasAttribute('aria-label'))
            .map((node) => node.outerHTML),
        )
        .concat(
          [...document.querySelectorAll('th')]
            .filter((node) => !node.scope)
            .map((node) => node.textContent),
        ),
    );
    assert.deepEqual(wrong, [], view);
  }
  await keys.context().close();
});

step('it fits a phone, in both schemes', async () => {
  for (const scheme of ['light', 'dark']) {
    const phone = await open('status', {
      viewport: {width: 360, height: 740},
      colorScheme: scheme,
      hasTouch: true,
      isMobile: true,
    });
    for (const view of ['Status', 'Queue', 'Requests', 'Nodes', 'Pulls', 'Chat', 'Config']) {
      await go(phone, view);
      await sleep(700);
      const wide = await phone.evaluate(() => {
        const width = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth <= width) return [];
        return [...document.querySelectorAll('body *')]
          .filter((node) => node.getBoundingClientRect().right > width)
          .map((node) => node.outerHTML.slice(0, 80));
      });
      assert.deepEqual(wide, [], `${view} is too wide`);
    }
    const dark = await phone.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await phone.getByLabel('Theme').selectOption(scheme === 'light' ? 'dark' : 'light');
    assert.notEqual(
      await phone.evaluate(() => getComputedStyle(document.body).backgroundColor),
      dark,
    );
    await phone.context().close();
  }
});

if (options.screenshots) {
  step('pictures', () => takePictures({server, open, dir: options.screenshots, model: options.model}));
}

// ---- keys, at last: from the first one on all of the above wants one

step('keys open it to operators alone, and are found nowhere else', async () => {
  const boss = server.cli('keys', 'create', 'boss', '--role', 'operator').key;
  const shop = server.cli('keys', 'create', 'shop').key;
  await page.getByLabel('Key', {exact: true}).waitFor();
  assert.equal(await row(page, 'Models', 'demo').isVisible(), false);
  const logIn = async (key) => {
    await page.getByLabel('Key', {exact: true}).fill(key);
    await page.getByRole('button', {name: 'Log in'}).click();
  };
  await logIn('hf_nobody');
  await page
    .getByRole('alert')
    .getByText(/not known/)
    .waitFor();
  await logIn(shop);
  await page
    .getByRole('alert')
    .getByText(/role is client/)
    .waitFor();
  await logIn(boss);
  await row(page, 'Models', 'demo').waitFor();
  await go(page, 'Config');
  await act(page, 'Set queue.max_requests', {fill: '777'});
  assert.equal(server.cli('config', 'get', 'queue.max_requests').who, 'console, key boss');
  await go(page, 'Chat');
  assert.ok((await chat('With a key', () => server.signal('gateway'))).length > 20);
  const seen = await page.evaluate(
    () =>
      location.href +
      document.documentElement.outerHTML +
      JSON.stringify(localStorage) +
      document.cookie +
      [...document.querySelectorAll('input')].map((node) => node.value),
  );
  for (const key of [boss, shop]) {
    assert.equal(seen.includes(key), false);
    assert.equal(server.logs().includes(key), false);
  }
  await page.getByRole('button', {name: 'Log out'}).click();
  await page.getByLabel('Key', {exact: true}).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

let code = 0;
try {
  await server.start([
    '--model',
    `demo=${options.model}`,
    '--kernels',
    'scalar',
    '--threads',
    '1',
    '--config',
    'link.worker_timeout_ms=5000',
    '--listen',
    'tcp://127.0.0.1:0',
  ]);
  for (const [name, run] of steps) {
    const began = Date.now();
    await run();
    assert.deepEqual(faults, [], name);
    console.log(`ok    ${((Date.now() - began) / 1000).toFixed(1).padStart(6)} s  ${name}`);
  }
  await server.stop();
} catch (e) {
  code = 1;
  console.log(`FAILED  ${e.stack}`);
  for (const fault of faults) console.log(`        ${fault}`);
  await page
    ?.screenshot({path: join(options.modules, 'failed.png'), fullPage: true})
    .catch(() => {});
} finally {
  await browser.close();
  server.remove();
}
process.exit(code);
