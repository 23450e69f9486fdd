// What runs: problems, rates, workers, devices, models, and the plots of the last hour.

import {call, fetchHistory} from './api.js';
import {ask} from './ask.js';
import {
  Table,
  badge,
  buttons,
  bytes,
  duration,
  el,
  number,
  put,
  setText,
  short,
  when,
} from './dom.js';
import {Plot} from './plot.js';

const kHour = 3600e3;
const kLeast = 300e3; // the shortest time that is plotted

const tile = (title) => {
  const value = el('b');
  const more = el('small');
  return {node: el('li', {class: 'tile'}, el('span', {text: title}), value, more), value, more};
};

/// A track with parts: [{name, value, kind}]. Its text says the same.
class Bar {
  constructor(label) {
    this.label = label;
    this.parts = [];
    this.track = el('div', {class: 'track', role: 'img'});
    this.legend = el('span', {class: 'bar-text'});
    this.node = el('div', {class: 'bar'}, this.track, this.legend);
  }

  update(total, parts, text = bytes) {
    while (this.parts.length < parts.length) this.parts.push(this.track.appendChild(el('span')));
    parts.forEach((part, i) => {
      this.parts[i].className = part.kind;
      this.parts[i].style.width =
        `${total > 0 ? Math.max(0, Math.min(100, (part.value / total) * 100)) : 0}%`;
      this.parts[i].title = `${part.name} ${text(part.value)}`;
    });
    const words = parts.map((part) => `${part.name} ${text(part.value)}`).join(', ');
    this.track.setAttribute('aria-label', `${this.label}: ${words}`);
    setText(this.legend, words);
  }
}

/// The bar that lives in a cell.
export function barIn(node, label, total, parts, text) {
  node.bar ??= new Bar(label);
  put(node, node.bar.node);
  node.bar.update(total, parts, text);
}

const count = (n) => number(n);

function workerTable() {
  return new Table(
    'Workers',
    [
      {title: 'worker', cell: (w) => w.key},
      {title: 'state', cell: (w, node) => badge(node, w.state, ['ready'], ['quarantined', 'lost'])},
      {
        title: 'device',
        cell: (w) =>
          `${w.device}, ${w.kernels || w.engine}, ${w.threads} ${w.threads === 1 ? 'thread' : 'threads'}`,
      },
      {title: 'models', cell: (w) => w.models.join(', ') || 'none'},
      {
        title: 'sequences',
        cell: (w, node) =>
          barIn(
            node,
            `sequences of ${w.key}`,
            w.slots,
            [
              {name: 'running', value: w.running, kind: 'used'},
              {name: 'free', value: w.slots - w.running, kind: 'free'},
            ],
            count,
          ),
      },
      {
        title: 'KV pages',
        cell: (w, node) =>
          barIn(
            node,
            `KV pages of ${w.key}`,
            w.pages,
            [
              {name: 'used', value: w.pages_used, kind: 'used'},
              {name: 'free', value: w.pages - w.pages_used, kind: 'free'},
            ],
            count,
          ),
      },
      {title: 'memory', number: true, cell: (w) => bytes(w.rss_bytes)},
      {title: 'restarts', number: true, cell: (w) => number(w.restarts ?? 0)},
      {
        title: 'actions',
        cell: (w, node) =>
          buttons(node, w.key, [
            [
              'Drain',
              () =>
                ask({
                  title: `Drain ${w.key}?`,
                  yes: 'Drain',
                  verb: 'workers.drain',
                  args: {key: w.key},
                  done: `${w.key} is draining`,
                  text:
                    `It ends the ${w.running} sequences that it runs and gets nothing new, ` +
                    'also after a restart, until it is resumed.',
                }),
              w.state === 'ready',
            ],
            [
              'Resume',
              () =>
                ask({
                  title: `Resume ${w.key}?`,
                  yes: 'Resume',
                  verb: 'workers.resume',
                  args: {key: w.key},
                  done: `${w.key} gets work again`,
                  text: w.reason ? `It was taken out: ${w.reason}` : 'It gets work again.',
                }),
              w.state !== 'ready' || w.breaker !== 'closed',
            ],
          ]),
      },
    ],
    {key: (w) => w.key, empty: 'No worker is connected.'},
  );
}

function deviceTable() {
  return new Table(
    'Memory of the devices',
    [
      {title: 'device', cell: (d) => `${d.device} of ${d.host || 'this machine'}`},
      {title: 'workers', number: true, cell: (d) => number(d.workers)},
      {
        title: 'measured',
        cell: (d, node) => {
          const others = Math.max(0, d.total_bytes - d.free_bytes - d.used_bytes);
          barIn(node, 'measured', d.total_bytes, [
            {name: 'used by workers', value: d.used_bytes, kind: 'used'},
            {name: 'by others', value: others, kind: 'other'},
            {name: 'free', value: d.free_bytes, kind: 'free'},
          ]);
        },
      },
      {
        title: 'planned',
        cell: (d, node) =>
          barIn(node, 'planned', d.total_bytes, [
            {name: 'reserved by loads', value: d.reserved_bytes, kind: 'reserved'},
            {name: 'left for loads', value: d.unreserved_bytes, kind: 'free'},
            {name: 'kept back', value: d.total_bytes - d.reservable_bytes, kind: 'other'},
          ]),
      },
      {title: 'total', number: true, cell: (d) => bytes(d.total_bytes)},
    ],
    {
      key: (d) => `${d.host}/${d.device}`,
      empty: 'No device is known while no worker is connected.',
    },
  );
}

function modelActions(m, node) {
  const wait = 'Running requests end first; a queued one loads it again.';
  const loaded = ['ready', 'loading', 'warming', 'placing'].includes(m.state);
  buttons(node, m.name, [
    [
      'Load',
      () =>
        ask({
          title: `Load ${m.name}?`,
          yes: 'Load',
          verb: 'models.load',
          args: {name: m.name},
          done: `${m.name} is being loaded`,
          text:
            `It wants ${bytes(m.weights_bytes + m.kv_bytes + m.scratch_bytes)}; ` +
            'idle models may have to go for it.',
        }),
      !loaded,
    ],
    [
      'Unload',
      () =>
        ask({
          title: `Unload ${m.name}?`,
          yes: 'Unload',
          verb: 'models.unload',
          args: {name: m.name},
          done: `${m.name} is being unloaded`,
          text: wait,
        }),
      loaded,
    ],
    [
      'Pin',
      () =>
        ask({
          title: `Pin ${m.name}?`,
          yes: 'Pin',
          verb: 'models.pin',
          args: {name: m.name},
          done: `${m.name} is pinned`,
          text: 'It stays loaded, whatever else is wanted.',
        }),
      !m.pinned,
    ],
    [
      'Unpin',
      () =>
        ask({
          title: `Unpin ${m.name}?`,
          yes: 'Unpin',
          verb: 'models.unpin',
          args: {name: m.name},
          done: `${m.name} may go when others are wanted`,
          text: 'It may be unloaded when it is idle and another model is wanted.',
        }),
      m.pinned,
    ],
  ]);
}

function modelTable() {
  return new Table(
    'Models',
    [
      {title: 'model', cell: (m) => m.name},
      {title: 'state', cell: (m, node) => badge(node, m.state, ['ready'], ['failed'])},
      {
        title: 'why',
        cell: (m) =>
          m.progress !== undefined && m.progress < 1 && m.state !== 'ready'
            ? `${Math.round(m.progress * 100)} %`
            : m.reason || (m.pinned ? 'pinned' : '–'),
      },
      {title: 'what', cell: (m) => `${m.architecture}, context ${number(m.context)}, ${m.kv_type}`},
      {
        title: 'running',
        number: true,
        cell: (m) =>
          m.loads.length === 0 ? '–' : m.loads.map((l) => `${l.running}/${l.slots}`).join(', '),
      },
      {
        title: 'memory',
        cell: (m, node) => {
          if (m.loads.length === 0)
            return put(node, `${bytes(m.weights_bytes + m.kv_bytes + m.scratch_bytes)} if loaded`);
          const sum = (field) => m.loads.reduce((all, load) => all + load[field], 0);
          const reserved = sum('reserved_bytes');
          const known = sum('weights_bytes') + sum('kv_bytes') + sum('scratch_bytes');
          barIn(node, `memory of ${m.name}`, Math.max(reserved, known), [
            {name: 'weights', value: sum('weights_bytes'), kind: 'used'},
            {name: 'KV', value: sum('kv_bytes'), kind: 'reserved'},
            {name: 'scratch', value: sum('scratch_bytes'), kind: 'other'},
          ]);
        },
      },
      {title: 'actions', cell: modelActions},
    ],
    {key: (m) => m.name, empty: 'No model is registered: holdfast models add NAME FILE'},
  );
}

function aliasTable() {
  return new Table(
    'Aliases and canaries',
    [
      {title: 'alias', cell: (a) => a.name},
      {
        title: 'stands for',
        cell: (a) => a.targets.map((t) => `${t.model} ${short(t.share_percent)} %`).join(', '),
      },
      {
        title: 'canary',
        cell: (a) =>
          a.canary
            ? `${a.canary.model}: ${a.canary.state}, ` +
              `${a.canary.passed}/${a.canary.windows} windows passed`
            : 'none',
      },
      {
        title: 'actions',
        cell: (a, node) =>
          buttons(node, a.name, [
            [
              'Roll back',
              () =>
                ask({
                  title: `Roll back the canary of ${a.name}?`,
                  yes: 'Roll back',
                  verb: 'models.canary_rollback',
                  args: {name: a.name},
                  done: `The canary of ${a.name} is rolled back`,
                  text: `${a.canary.model} gets no new request of this name.`,
                }),
              Boolean(a.canary),
            ],
            [
              'Promote',
              () =>
                ask({
                  title: `Promote the canary of ${a.name}?`,
                  yes: 'Promote',
                  verb: 'models.canary_promote',
                  args: {name: a.name},
                  done: `${a.name} is promoted`,
                  text: `All requests of this name go to ${a.canary.model}.`,
                }),
              Boolean(a.canary),
            ],
          ]),
      },
    ],
    {key: (a) => a.name, empty: 'No alias.'},
  );
}

const plots = () => [
  new Plot('Tokens', 'per second', [{name: 'tokens', field: 'tokens_per_s'}]),
  new Plot('Requests', 'per second', [
    {name: 'accepted', field: 'accepted_per_s'},
    {name: 'ended', field: 'ended_per_s'},
    {name: 'refused', field: 'refused_per_s'},
  ]),
  new Plot('Time to first token', 'ms', [
    {name: 'median', field: 'first_token_p50_ms', worst: true},
    {name: '95 of 100 within', field: 'first_token_p95_ms', worst: true},
  ]),
  new Plot('Time between tokens', 'ms', [
    {name: 'median', field: 'token_gap_p50_ms', worst: true},
    {name: '95 of 100 within', field: 'token_gap_p95_ms', worst: true},
  ]),
  new Plot('Queue', 'choices', [
    {name: 'waiting', field: 'waiting'},
    {name: 'running', field: 'running'},
  ]),
];

export class StatusView {
  constructor(root) {
    this.tiles = Object.fromEntries(
      [
        'running',
        'waiting',
        'tokens',
        'accepted',
        'first token',
        'between tokens',
        'daemon',
        'disk',
      ].map((name) => [name, tile(name)]),
    );
    this.problems = el('ul', {class: 'problems'});
    this.workers = workerTable();
    this.devices = deviceTable();
    this.models = modelTable();
    this.aliases = aliasTable();
    this.plots = plots();
    this.covered = el('p', {class: 'hint'});
    this.samples = [];
    const section = (title, ...nodes) =>
      el('section', {class: 'panel'}, el('h2', {text: title}), ...nodes);
    this.aliasSection = section('Aliases', this.aliases.node);
    root.append(
      this.problems,
      el(
        'ul',
        {class: 'tiles'},
        Object.values(this.tiles).map((t) => t.node),
      ),
      section('Models', this.models.node),
      this.aliasSection,
      section('Workers', this.workers.node),
      section('Memory', this.devices.node),
      el(
        'section',
        {},
        el('h2', {text: 'The last hour'}),
        this.covered,
        el(
          'div',
          {class: 'plots'},
          this.plots.map((plot) => plot.node),
        ),
      ),
    );
  }

  async refresh(status) {
    this.showTiles(status);
    put(
      this.problems,
      status.problems.length === 0
        ? el('li', {class: 'good', text: 'No problems.'})
        : status.problems.map((p) =>
            el(
              'li',
              {class: p.level === 'error' ? 'bad' : 'warn'},
              el('b', {text: `${p.level}, ${p.subject}: `}),
              p.what,
              el('small', {text: p.hint}),
            ),
          ),
    );
    this.workers.update(status.workers);
    this.devices.update(status.devices);
    this.models.update(status.models);
    const {aliases} = await call('models.aliases');
    this.aliases.update(aliases);
    this.aliasSection.hidden = aliases.length === 0;
    await this.refreshPlots();
  }

  showTiles({queue, rates, latency, daemon, storage, counters}) {
    const show = (name, value, more) => {
      setText(this.tiles[name].value, value);
      setText(this.tiles[name].more, more);
    };
    show('running', number(queue.running_choices), `${number(counters.succeeded)} succeeded`);
    show(
      'waiting',
      number(queue.queued_choices),
      queue.paused ? 'dispatch is paused' : `${number(queue.preparing)} in preparation`,
    );
    show('tokens', short(rates.tokens_per_s), 'per second, last minute');
    show('accepted', short(rates.accepted_per_s), 'requests per second');
    show(
      'first token',
      duration(latency.first_token.p50_ms),
      `95 of 100 within ${duration(latency.first_token.p95_ms)}`,
    );
    show(
      'between tokens',
      duration(latency.token_gap.p50_ms),
      `95 of 100 within ${duration(latency.token_gap.p95_ms)}`,
    );
    show('daemon', duration(daemon.uptime_ms), `version ${daemon.version}, start ${daemon.epoch}`);
    show('disk', bytes(storage.disk_free_bytes), `free; ${number(storage.commits)} commits`);
  }

  async refreshPlots() {
    const history = await fetchHistory(this.samples.at(-1)?.at_ms ?? 0);
    for (const row of history.samples) {
      this.samples.push(Object.fromEntries(history.fields.map((field, i) => [field, row[i]])));
    }
    const end = Math.max(Date.now(), this.samples.at(-1)?.at_ms ?? 0);
    this.samples = this.samples.filter((sample) => sample.at_ms > end - kHour);
    const first = this.samples[0]?.at_ms;
    const whole = first !== undefined && first < end - kHour + 4 * history.interval_ms;
    setText(
      this.covered,
      first === undefined
        ? 'Nothing was measured yet.'
        : `One value each ${history.interval_ms / 1000} s` +
            (whole ? '.' : `, from ${when(first)} on: less than an hour, the gateway began then.`),
    );
    const start = Math.min(Math.max(first ?? end, end - kHour), end - kLeast);
    for (const plot of this.plots) plot.update(this.samples, start, end);
  }
}
