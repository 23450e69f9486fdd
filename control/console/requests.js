// Requests: search, pages, and one of them with every attempt.

import {call} from './api.js';
import {ask} from './ask.js';
import {
  Table,
  buttons,
  byId,
  clock,
  duration,
  el,
  number,
  put,
  putRequestLink,
  requestBadge,
  setText,
  svg,
  when,
} from './dom.js';

const kPage = 25;
const kLookAt = 10000; // requests that one search may read
const kStates = [
  '',
  'queued',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'quarantined',
];
const kOver = ['succeeded', 'failed', 'cancelled', 'expired'];
const kPriorities = ['interactive', 'normal', 'batch'];

export function requestActions(r, node) {
  const live = !kOver.includes(r.state);
  buttons(node, `request ${r.id}`, [
    [
      'Cancel',
      () =>
        ask({
          title: 'Cancel this request?',
          yes: 'Cancel it',
          verb: 'requests.cancel',
          args: {id: r.id},
          done: `Request ${r.id} is cancelled`,
          text: `${r.id}, ${r.model}: it ends with what it has. That is final.`,
        }),
      live,
    ],
    [
      'Move',
      () =>
        ask({
          title: 'Another priority?',
          yes: 'Move',
          verb: 'requests.move',
          args: {id: r.id},
          fields: [
            {
              name: 'priority',
              label: 'Priority',
              options: kPriorities,
              value: kPriorities[r.priority],
            },
          ],
          done: `Request ${r.id} has its new place`,
          text: r.id,
        }),
      live,
    ],
    [
      'Requeue',
      () =>
        ask({
          title: 'Queue this request again?',
          yes: 'Requeue',
          verb: 'requests.requeue',
          args: {id: r.id},
          done: `Request ${r.id} is queued again`,
          text: 'Off its worker, or out of quarantine with a clean record. It goes on where it was.',
        }),
      live && r.state !== 'queued',
    ],
  ]);
}

function listTable() {
  return new Table(
    'Requests, the newest first',
    [
      {
        title: 'request',
        cell: (r, node) => putRequestLink(node, r.id),
      },
      {title: 'state', cell: (r, node) => requestBadge(node, r.state)},
      {title: 'model', cell: (r) => (r.alias ? `${r.model} (as ${r.alias})` : r.model)},
      {title: 'tenant', cell: (r) => r.tenant},
      {title: 'prompt', number: true, cell: (r) => number(r.prompt_tokens)},
      {
        title: 'tokens',
        number: true,
        cell: (r) => `${number(r.tokens)}/${number(r.max_tokens * r.n)}`,
      },
      {title: 'attempts', number: true, cell: (r) => number(r.attempts)},
      {title: 'since', number: true, cell: (r) => when(r.created_ms)},
      {
        title: 'took',
        number: true,
        cell: (r) => duration((r.finished_ms || Date.now()) - r.created_ms),
      },
      {title: 'error', cell: (r) => r.error_code || '–'},
    ],
    {key: (r) => r.id, empty: 'No request fits.'},
  );
}

/// From acceptance to the end as one row of time: the wait, then each attempt in a lane of its own.
function drawTimeline(picture, r, now) {
  const width = picture.clientWidth || 600;
  const start = r.created_ms;
  const end = Math.max(r.finished_ms || now, start + 1, ...r.attempts.map((a) => a.ended_ms ?? 0));
  const left = 86;
  const x = (ms) => left + (Math.max(0, ms - start) / (end - start)) * (width - left - 12);
  const lanes = [
    {
      label: 'wait',
      from: start,
      to: r.started_ms || r.finished_ms || now,
      kind: 'wait',
      text: 'in the queue',
    },
  ];
  r.attempts.forEach((a, i) =>
    lanes.push({
      label: `attempt ${i + 1}`,
      from: a.started_ms,
      to: a.ended_ms ?? r.finished_ms ?? now,
      kind:
        a.ended_ms === null && !r.finished_ms
          ? 'open'
          : ['stop', 'length'].includes(a.reason)
            ? 'done'
            : 'ended',
      text: `${a.worker_key}, ${a.reason || 'running'}`,
    }),
  );
  const lane = 24;
  const height = lanes.length * lane + 24;
  picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
  picture.setAttribute('height', height);
  const parts = [];
  for (let i = 0; i <= 4; ++i) {
    const at = start + ((end - start) * i) / 4;
    parts.push(
      svg('line', {class: 'grid', x1: x(at), x2: x(at), y1: 0, y2: height - 20}),
      svg('text', {
        class: 'tick',
        x: x(at),
        y: height - 6,
        'text-anchor': i === 4 ? 'end' : i === 0 ? 'start' : 'middle',
        text: i === 0 ? clock(at) : `+${duration(at - start)}`,
      }),
    );
  }
  lanes.forEach((l, i) => {
    const from = x(l.from);
    const wide = Math.max(3, x(Math.max(l.to, l.from)) - from);
    parts.push(
      svg('text', {class: 'tick', x: 0, y: i * lane + 17, text: l.label}),
      svg(
        'rect',
        {class: `span ${l.kind}`, x: from, y: i * lane + 4, width: wide, height: lane - 8, rx: 3},
        svg('title', {text: `${l.text}: ${duration(l.to - l.from)}`}),
      ),
    );
  });
  picture.setAttribute(
    'aria-label',
    `Timeline of ${duration(end - start)}. ` +
      lanes
        .map(
          (l) =>
            `${l.label}: after ${duration(Math.max(0, l.from - start))}, ` +
            `for ${duration(l.to - l.from)}, ${l.text}`,
        )
        .join('. '),
  );
  put(picture, ...parts);
}

class Detail {
  constructor() {
    this.title = el('h2', {id: 'request-title', tabindex: '-1'});
    this.actions = el('p');
    this.facts = el('dl', {class: 'facts'});
    this.picture = svg('svg', {class: 'timeline', role: 'img'});
    this.attempts = new Table(
      'Attempts, in their order',
      [
        {title: 'attempt', number: true, cell: (a) => number(a.index)},
        {title: 'choice', number: true, cell: (a) => number(a.choice)},
        {title: 'worker', cell: (a) => a.worker_key},
        {title: 'began after', number: true, cell: (a) => duration(a.after)},
        {
          title: 'took',
          number: true,
          cell: (a) => (a.ended_ms === null ? 'running' : duration(a.ended_ms - a.started_ms)),
        },
        {title: 'tokens', number: true, cell: (a) => `${a.start_index} to ${a.end_index ?? '…'}`},
        {title: 'taken over', cell: (a) => (a.adopted ? 'yes' : 'no')},
        {title: 'ended by', cell: (a) => a.reason || '–'},
        {title: 'fence', number: true, cell: (a) => `${a.fence_epoch}.${a.fence_counter}`},
      ],
      {
        key: (a) => `${a.fence_epoch}.${a.fence_counter}.${a.choice}`,
        empty: 'No worker has had it yet.',
      },
    );
    this.choices = new Table(
      'Choices',
      [
        {title: 'choice', number: true, cell: (c) => number(c.choice)},
        {title: 'prompt tokens', number: true, cell: (c) => number(c.prompt_tokens)},
        {title: 'tokens', number: true, cell: (c) => number(c.next_index)},
        {title: 'ended by', cell: (c) => (c.finish === 'none' ? '–' : c.finish || '–')},
        {title: 'deaths', number: true, cell: (c) => number(c.deaths)},
        {title: 'error', cell: (c) => (c.error_code ? `${c.error_code}: ${c.error}` : '–')},
      ],
      {key: (c) => c.choice, empty: 'No choices.'},
    );
    this.node = el(
      'section',
      {class: 'panel', 'aria-labelledby': 'request-title', hidden: true},
      el('p', {}, el('a', {href: '#/requests', text: 'Close'})),
      this.title,
      this.actions,
      this.facts,
      el('h3', {text: 'Timeline'}),
      this.picture,
      el('h3', {text: 'Attempts'}),
      this.attempts.node,
      el('h3', {text: 'Choices'}),
      this.choices.node,
    );
  }

  show(r) {
    this.node.hidden = false;
    setText(this.title, `Request ${r.id}`);
    requestActions(r, this.actions);
    const facts = [
      ['state', r.state],
      ['model', r.model],
      ['asked for as', r.alias],
      ['tenant', r.tenant],
      ['priority', kPriorities[r.priority]],
      [
        'tokens',
        `${number(r.tokens)} of ${number(r.max_tokens * r.n)}, prompt ${number(r.prompt_tokens)}`,
      ],
      ['accepted', when(r.created_ms)],
      ['began', r.started_ms ? `after ${duration(r.started_ms - r.created_ms)}` : 'not yet'],
      [
        'ended',
        r.finished_ms
          ? `${when(r.finished_ms)}, after ${duration(r.finished_ms - r.created_ms)}`
          : 'not yet',
      ],
      ['before it in the queue', r.queue_position >= 0 ? number(r.queue_position) : ''],
      ['rerouted from', r.rerouted_from],
      ['numerics class', r.class],
      ['error', r.error_code ? `${r.error_code}: ${r.error}` : ''],
    ];
    put(
      this.facts,
      facts
        .filter(([, value]) => value)
        .flatMap(([name, value]) => [el('dt', {text: name}), el('dd', {text: value})]),
    );
    drawTimeline(this.picture, r, Date.now());
    this.attempts.update(
      r.attempts.map((a, i) => ({...a, index: i + 1, after: a.started_ms - r.created_ms})),
    );
    this.choices.update(r.choices);
  }
}

export class RequestsView {
  constructor(root) {
    this.froms = [0]; // where the pages begin that were gone through
    this.table = listTable();
    this.detail = new Detail();
    this.where = el('p', {class: 'hint'});
    this.newer = el('button', {type: 'button', text: 'Newer', onclick: () => this.turn(-1)});
    this.older = el('button', {type: 'button', text: 'Older', onclick: () => this.turn(1)});
    const field = (id, label, input) => el('p', {}, el('label', {for: id, text: label}), input);
    const input = (id) =>
      el('input', {id, type: 'search', autocomplete: 'off', spellcheck: 'false'});
    this.form = el(
      'form',
      {
        class: 'search row',
        role: 'search',
        'aria-label': 'Requests',
        onsubmit: (event) => {
          event.preventDefault();
          this.froms = [0];
          this.refreshNow();
        },
      },
      field('find-id', 'id, or a part of it', input('find-id')),
      field(
        'find-state',
        'state',
        el(
          'select',
          {id: 'find-state'},
          kStates.map((state) => el('option', {value: state, text: state || 'any'})),
        ),
      ),
      field('find-model', 'model', input('find-model')),
      field('find-tenant', 'tenant', input('find-tenant')),
      el('p', {}, el('button', {class: 'primary', text: 'Search'})),
    );
    root.append(
      this.detail.node,
      el(
        'div',
        {class: 'panel'},
        this.form,
        this.table.node,
        this.where,
        el('p', {class: 'buttons'}, this.newer, this.older),
      ),
    );
  }

  enter(id) {
    this.id = id;
    this.shownFor = undefined;
  }

  turn(by) {
    if (by > 0) this.froms.push(this.next);
    else this.froms.pop();
    this.refreshNow();
  }

  async refresh() {
    await this.refreshDetail();
    const text = (id) => byId(id).value.trim();
    const page = await call('requests.list', {
      limit: kPage,
      look_at: kLookAt,
      from: this.froms.at(-1),
      id: text('find-id'),
      state: text('find-state'),
      model: text('find-model'),
      tenant: text('find-tenant'),
    });
    this.next = page.next;
    this.table.update(page.requests);
    this.newer.disabled = this.froms.length < 2;
    this.older.disabled = !page.next;
    setText(
      this.where,
      `Page ${this.froms.length}` +
        (page.next && page.requests.length < kPage
          ? `: ${number(kLookAt)} requests were looked through, Older goes on.`
          : page.next
            ? '.'
            : ', the last.'),
    );
  }

  async refreshDetail() {
    const id = this.id;
    if (!id) {
      this.detail.node.hidden = true;
      return;
    }
    const request = await call('requests.show', {id});
    if (id !== this.id) return;
    this.detail.show(request);
    if (this.shownFor !== id) {
      this.shownFor = id;
      this.detail.title.focus();
    }
  }
}
