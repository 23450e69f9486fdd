// Other machines with workers: those there are, what each has and lacks, its drain.

import {call} from './api.js';
import {ask} from './ask.js';
import {Table, badge, buttons, bytes, duration, el, number, put, setText, when} from './dom.js';
import {barIn} from './status.js';

const kGood = ['ready'];
const kBad = ['lost', 'quarantined'];
const kLacks = /has no file with this content/;

const plural = (n, word) => `${number(n)} ${word}${n === 1 ? '' : 's'}`;

/// What else the status says of a node: its workers, its devices with their memory, its models.
function withStatus(node, status) {
  const workers = status.workers.filter((w) => w.key.startsWith(`${node.name}/`));
  const here = workers.filter((w) => w.state !== 'lost');
  const models = status.models
    .map((m) => ({
      name: m.name,
      wanted: m.wanted,
      loads: m.loads.filter((l) => l.worker.startsWith(`${node.name}/`)),
      verdicts: m.devices.filter((d) => d.worker.startsWith(`${node.name}/`)),
    }))
    .filter((m) => m.loads.length > 0 || m.verdicts.length > 0);
  return {
    ...node,
    all: workers,
    here,
    devices: devicesOf(here),
    on: models,
    lacking: models.filter((m) => m.wanted && m.verdicts.some((v) => kLacks.test(v.why))),
  };
}

/// Workers of one device share its memory, so the largest total and the least free memory count.
function devicesOf(workers) {
  const devices = new Map();
  for (const w of workers) {
    const name = `${w.device}, ${w.kernels || w.engine}`;
    const d = devices.get(name) ?? {name, workers: 0, total: 0, free: Infinity, used: 0};
    d.workers += 1;
    d.total = Math.max(d.total, w.memory_total);
    d.free = Math.min(d.free, w.memory_free);
    d.used += w.rss_bytes;
    devices.set(name, d);
  }
  return [...devices.values()];
}

function memory(n, node) {
  if (n.devices.length === 0) return put(node, '–');
  const sum = (field) => n.devices.reduce((all, d) => all + d[field], 0);
  const total = sum('total');
  const free = sum('free');
  const used = Math.min(sum('used'), total - free);
  barIn(node, `memory of ${n.name}`, total, [
    {name: 'used by workers', value: used, kind: 'used'},
    {name: 'by others', value: Math.max(0, total - free - used), kind: 'other'},
    {name: 'free', value: free, kind: 'free'},
  ]);
}

function workersOf(n) {
  const ready = n.here.filter((w) => w.state === 'ready').length;
  return n.here.length === 0 ? 'none' : `${number(ready)} of ${number(n.here.length)} ready`;
}

const namesOf = (models) => models.map((m) => m.name).join(', ');
const loadedOn = (n) => namesOf(n.on.filter((m) => m.loads.length > 0)) || 'none';
const heard = (n) => (n.heard_ms === null ? 'never' : `${duration(n.heard_ms)} ago`);

/// `done` runs after an action, or when the operator thought better of it.
function nodeActions(n, node, done) {
  const running = n.here.reduce((all, w) => all + w.running, 0);
  buttons(node, n.name, [
    [
      'Drain',
      () =>
        ask({
          title: `Drain the node ${n.name}?`,
          yes: 'Drain',
          verb: 'nodes.drain',
          args: {name: n.name},
          done: `${n.name} is draining`,
          text:
            `Its workers end the ${plural(running, 'sequence')} that they run and get nothing ` +
            'new, also after a restart of either side, until it is resumed.',
        }).then(done),
      !n.drained,
    ],
    [
      'Resume',
      () =>
        ask({
          title: `Resume the node ${n.name}?`,
          yes: 'Resume',
          verb: 'nodes.resume',
          args: {name: n.name},
          done: `The workers of ${n.name} get work again`,
          text: 'Its workers get work again.',
        }).then(done),
      n.drained,
    ],
  ]);
}

function nodeTable(view) {
  return new Table(
    'Nodes',
    [
      {
        title: 'node',
        cell: (n, node) => {
          node.link ??= el('a', {href: `#/nodes/${encodeURIComponent(n.name)}`, text: n.name});
          put(node, node.link);
        },
      },
      {title: 'state', cell: (n, node) => badge(node, n.state, kGood, kBad)},
      {title: 'heard', number: true, cell: heard},
      {title: 'workers', cell: workersOf},
      {title: 'devices', cell: (n) => n.devices.map((d) => d.name).join('; ') || '–'},
      {title: 'memory', cell: memory},
      {title: 'models', cell: loadedOn},
      {title: 'lacks', cell: (n) => namesOf(n.lacking) || '–'},
      {title: 'since', number: true, cell: (n) => when(n.since_ms)},
      {title: 'actions', cell: (n, node) => nodeActions(n, node, () => view.refreshNow?.())},
    ],
    {key: (n) => n.name, empty: ''},
  );
}

/// How a node is joined, in place of an empty table.
function invitation() {
  const code = (text) => el('pre', {class: 'scroll'}, el('code', {text}));
  return el(
    'div',
    {},
    el('p', {
      class: 'empty',
      text: 'No node has joined: all work is done on this machine. To add a machine, here:',
    }),
    code(
      'holdfast serve --listen tcp://THIS-MACHINE:7070 …\n' +
        'holdfast keys node create gpu-1 --out gpu-1.key',
    ),
    el('p', {class: 'empty', text: 'Bring gpu-1.key to it by a private way, and there:'}),
    code('holdfast node --join tcp://THIS-MACHINE:7070 --key gpu-1.key --root /srv/models'),
  );
}

function workerTable() {
  return new Table(
    'Workers of the node',
    [
      {title: 'worker', cell: (w) => w.key},
      {title: 'state', cell: (w, node) => badge(node, w.state, kGood, kBad)},
      {
        title: 'device',
        cell: (w) => `${w.device}, ${w.kernels || w.engine}, ${plural(w.threads, 'thread')}`,
      },
      {title: 'models', cell: (w) => w.models.join(', ') || 'none'},
      {title: 'running', number: true, cell: (w) => `${number(w.running)}/${number(w.slots)}`},
      {title: 'KV pages', number: true, cell: (w) => `${number(w.pages_used)}/${number(w.pages)}`},
      {title: 'memory', number: true, cell: (w) => bytes(w.rss_bytes)},
      {title: 'why', cell: (w) => w.reason || '–'},
    ],
    {key: (w) => w.key, empty: 'No worker of it is connected.'},
  );
}

function modelTable() {
  return new Table(
    'Models on the node',
    [
      {title: 'model', cell: (m) => m.name},
      {
        title: 'state',
        cell: (m, node) => badge(node, m.loads[0]?.state ?? 'not loaded', kGood, ['failed']),
      },
      {title: 'workers', cell: (m) => m.loads.map((l) => l.worker).join(', ') || '–'},
      {
        title: 'why',
        cell: (m) => m.loads[0]?.reason || m.verdicts.find((v) => v.why)?.why || '–',
      },
    ],
    {key: (m) => m.name, empty: 'No model is wanted here.'},
  );
}

class Detail {
  constructor(view) {
    this.view = view;
    this.title = el('h2', {id: 'node-title', tabindex: '-1'});
    this.actions = el('p');
    this.facts = el('dl', {class: 'facts'});
    this.workers = workerTable();
    this.models = modelTable();
    this.rest = el(
      'div',
      {},
      this.actions,
      this.facts,
      el('h3', {text: 'Workers'}),
      this.workers.node,
      el('h3', {text: 'Models'}),
      this.models.node,
    );
    this.node = el(
      'section',
      {class: 'panel', 'aria-labelledby': 'node-title', hidden: true},
      el('p', {}, el('a', {href: '#/nodes', text: 'Close'})),
      this.title,
      this.rest,
    );
  }

  show(name, n) {
    this.node.hidden = !name;
    if (!name) return;
    setText(this.title, n ? `Node ${n.name}` : `No node ${name} has joined`);
    this.rest.hidden = !n;
    if (!n) return;
    nodeActions(n, this.actions, () => this.view.refreshNow?.());
    const facts = [
      ['state', n.reason ? `${n.state}: ${n.reason}` : n.state],
      ['since', when(n.since_ms)],
      ['heard', heard(n)],
      ['drained by an operator', n.drained ? 'yes, until it is resumed' : 'no'],
      ['host', n.host],
      ['version', n.version],
      ['files of models', n.models === null ? 'not looked for yet' : number(n.models)],
      ...n.devices.map((d) => [
        d.name,
        `${plural(d.workers, 'worker')}, ${bytes(d.free)} free of ${bytes(d.total)}`,
      ]),
    ];
    put(
      this.facts,
      facts
        .filter(([, value]) => value)
        .flatMap(([title, value]) => [el('dt', {text: title}), el('dd', {text: value})]),
    );
    this.workers.update(n.all);
    this.models.update(n.on);
  }
}

export class NodesView {
  constructor(root) {
    this.detail = new Detail(this);
    this.table = nodeTable(this);
    this.invitation = invitation();
    root.append(
      this.detail.node,
      el('section', {class: 'panel'}, this.table.node, this.invitation),
    );
  }

  enter(name) {
    this.name = name;
    this.focused = undefined;
  }

  async refresh(status) {
    const {nodes} = await call('nodes.list');
    const list = nodes.map((node) => withStatus(node, status));
    this.table.update(list);
    this.table.node.hidden = list.length === 0;
    this.invitation.hidden = list.length > 0;
    this.detail.show(
      this.name,
      list.find((n) => n.name === this.name),
    );
    if (this.name && this.focused !== this.name) {
      this.focused = this.name;
      this.detail.title.focus();
    }
  }
}
