// What waits: by model, tenant and priority, and the oldest requests one by one.

import {call} from './api.js';
import {ask} from './ask.js';
import {Table, buttons, duration, el, number, putRequestLink, setText} from './dom.js';
import {requestActions} from './requests.js';

const kShown = 50;

export class QueueView {
  constructor(root) {
    this.facts = el('p');
    this.pause = el('p');
    this.lines = new Table(
      'Waiting and running, by model, tenant and priority',
      [
        {title: 'model', cell: (l) => l.model},
        {title: 'tenant', cell: (l) => l.tenant},
        {title: 'priority', cell: (l) => l.priority},
        {title: 'waiting', number: true, cell: (l) => number(l.waiting)},
        {title: 'running', number: true, cell: (l) => number(l.running)},
        {
          title: 'longest wait',
          number: true,
          cell: (l) => (l.waiting > 0 ? duration(l.oldest_wait_ms) : '–'),
        },
      ],
      {
        key: (l) => JSON.stringify([l.model, l.tenant, l.priority]),
        empty: 'Nothing waits, nothing runs.',
      },
    );
    this.waiting = new Table(
      'Waiting requests, the oldest first',
      [
        {
          title: 'request',
          cell: (r, node) => putRequestLink(node, r.id),
        },
        {title: 'model', cell: (r) => r.model},
        {title: 'tenant', cell: (r) => r.tenant},
        {title: 'priority', cell: (r) => ['interactive', 'normal', 'batch'][r.priority]},
        {
          title: 'before it',
          number: true,
          cell: (r) => (r.queue_position >= 0 ? number(r.queue_position) : '–'),
        },
        {title: 'age', number: true, cell: (r) => duration(Date.now() - r.created_ms)},
        {title: 'expected', number: true, cell: (r) => duration(r.eta_ms ?? -1)},
        {title: 'actions', cell: (r, node) => requestActions(r, node)},
      ],
      {key: (r) => r.id, empty: 'No request waits.'},
    );
    this.limits = new Table(
      'Bounds',
      [
        {title: 'bound', cell: (l) => l.name},
        {title: 'now', number: true, cell: (l) => number(l.used)},
        {title: 'limit', number: true, cell: (l) => (l.limit > 0 ? number(l.limit) : 'none')},
      ],
      {key: (l) => l.name, empty: 'No bounds.'},
    );
    this.refusals = el('p');
    root.append(
      el('div', {class: 'panel row'}, this.facts, this.pause),
      el(
        'section',
        {class: 'panel'},
        el('h2', {text: 'By model, tenant and priority'}),
        this.lines.node,
      ),
      el(
        'section',
        {class: 'panel'},
        el('h2', {text: `The oldest ${kShown} that wait`}),
        this.waiting.node,
      ),
      el('section', {class: 'panel'}, el('h2', {text: 'Bounds'}), this.limits.node, this.refusals),
    );
  }

  async refresh(status) {
    const {queue} = status;
    setText(
      this.facts,
      `${number(queue.queued_choices)} choices wait, ${number(queue.running_choices)} run. ` +
        (queue.unread_requests > 0
          ? `${number(queue.unread_requests)} requests are still being read after a start. `
          : '') +
        (queue.paused
          ? 'Dispatch is paused: what arrives is accepted and waits.'
          : 'Dispatch is on.'),
    );
    buttons(this.pause, 'dispatch', [
      [
        'Pause',
        () =>
          ask({
            title: 'Pause dispatch?',
            yes: 'Pause',
            verb: 'queue.pause',
            args: {},
            done: 'Dispatch is paused',
            text:
              'What runs goes on. What waits stays where it is, over restarts too, ' +
              'until dispatch is resumed.',
          }),
        !queue.paused,
      ],
      [
        'Resume',
        () =>
          ask({
            title: 'Resume dispatch?',
            yes: 'Resume',
            verb: 'queue.resume',
            args: {},
            done: 'Dispatch goes on',
            text: 'What waits is given to workers again.',
          }),
        queue.paused,
      ],
    ]);
    this.lines.update(queue.lines);
    this.limits.update(status.limits);
    const refused = Object.entries(status.refusals)
      .map(([code, n]) => `${code} ${number(n)}`)
      .join(', ');
    setText(
      this.refusals,
      refused
        ? `Refused since the daemon's start: ${refused}.`
        : "Nothing was refused since the daemon's start.",
    );
    const {requests} = await call('requests.list', {
      state: 'queued',
      oldest_first: true,
      limit: kShown,
      look_at: 10000,
    });
    this.waiting.update(requests);
  }
}
