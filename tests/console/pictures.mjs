// The pictures of docs/use/console.md: a server that has had some minutes of uneven load.

import {mkdirSync} from 'node:fs';
import {join} from 'node:path';

import {FileServer} from './file_server.mjs';
import {sleep, until} from './test_server.mjs';

/// Some minutes of uneven load, so that there is something to see.
export async function takePictures({server, open, dir, model}) {
  mkdirSync(dir, {recursive: true});
  server.cli('config', 'set', 'queue.max_waiting=40');
  const end = Date.now() + 190e3;
  const load = (async () => {
    const open = new Set();
    while (Date.now() < end) {
      const busy = 1 + Math.round(3 * (1 + Math.sin(Date.now() / 25e3)));
      while (open.size < busy) {
        const one = server
          .complete('O for a muse of fire', 10 + open.size * 9)
          .catch(() => {})
          .finally(() => open.delete(one));
        open.add(one);
      }
      await sleep(100);
    }
    await Promise.all(open);
  })();
  const shoot = async (name, view, settings, prepare) => {
    const shot = await open(view, settings);
    await sleep(1500);
    await prepare?.(shot);
    await shot.evaluate(() => document.fonts.ready);
    await shot.screenshot({path: join(dir, `${name}.png`), fullPage: view === 'status'});
    await shot.context().close();
  };
  await sleep(170e3);
  const phone = {
    viewport: {width: 390, height: 844},
    hasTouch: true,
    isMobile: true,
    colorScheme: 'light',
  };
  const files = await new FileServer(model, 150e3).start();
  server.cli('pull', files.url, '--as', 'another', '--no-wait');
  server.cli('pull', 'http://127.0.0.1:1/FILE.gguf', '--as', 'away', '--no-wait');
  await sleep(6000);
  await shoot('nodes-light', 'nodes', {colorScheme: 'light'});
  await shoot('pulls-light', 'pulls', {colorScheme: 'light'});
  server.cli('jobs', 'cancel', 'another');
  server.cli('jobs', 'cancel', 'away');
  await files.stop();
  await shoot('status-light', 'status', {colorScheme: 'light'});
  await shoot('status-dark', 'status', {colorScheme: 'dark'});
  await shoot('status-phone', 'status', {...phone, colorScheme: 'dark'});
  server.cli('queue', 'pause');
  const waiting = ['interactive', 'normal', 'batch'].map((_, i) =>
    server.complete('A horse, a horse', 5 + i),
  );
  await sleep(500);
  await shoot('queue-light', 'queue', {colorScheme: 'light'});
  server.cli('queue', 'resume');
  await Promise.all([load, ...waiting]);
  const killed = server.complete('The quality of mercy', 60);
  await until(
    'it runs',
    () => server.cli('requests', 'list', '--with-state', 'running').requests[0]?.tokens > 5,
  );
  server.signal('worker-0');
  const {id} = await killed;
  await shoot('request-dark', `requests/${id}`, {colorScheme: 'dark'});
  await shoot('config-light', 'config/queue.max_requests', {colorScheme: 'light'}, (shot) =>
    shot.getByLabel('name or words', {exact: true}).fill('queue'),
  );
  const talk = async (shot) => {
    await shot.getByLabel('tokens at most', {exact: true}).fill('80');
    await shot.getByLabel('seed', {exact: true}).fill('3');
    await shot.getByLabel('temperature', {exact: true}).fill('0.8');
    await shot.getByLabel('Message', {exact: true}).fill('Good morrow');
    await shot.keyboard.press('Enter');
    await shot.locator('.chat-state').getByText(/^Done/).waitFor({timeout: 120000});
  };
  await shoot(
    'chat-light',
    'chat',
    {colorScheme: 'light', viewport: {width: 1280, height: 800}},
    talk,
  );
  await shoot('chat-phone', 'chat', phone, talk);
  server.cli('config', 'unset', 'queue.max_waiting');
}
