// Every knob, where its value comes from, and the versions that it had.

import {call} from './api.js';
import {ask} from './ask.js';
import {Table, buttons, el, number, put, setText, when} from './dom.js';

const show = (value) =>
  value === '' ? '(empty)' : typeof value === 'number' ? number(value, 6) : String(value);

const by = (change) => change.source + (change.who ? `, ${change.who}` : '');

export class ConfigView {
  constructor(root) {
    this.search = el('input', {
      id: 'find-knob',
      type: 'search',
      autocomplete: 'off',
      spellcheck: 'false',
      oninput: () => this.filter(),
    });
    this.changed = el('input', {
      id: 'changed-knobs',
      type: 'checkbox',
      onchange: () => this.filter(),
    });
    this.found = el('p', {class: 'hint', role: 'status'});
    this.knobs = [];
    this.table = new Table(
      'Knobs',
      [
        {title: 'knob', cell: (k) => k.name},
        {title: 'in effect', number: true, cell: (k) => `${show(k.effective)} ${k.unit}`.trim()},
        {title: 'set to', number: true, cell: (k) => (k.version > 0 ? show(k.value) : '–')},
        {
          title: 'from',
          cell: (k) => (k.version > 0 ? by(k) : 'default'),
        },
        {
          title: 'note',
          cell: (k) =>
            k.restart_pending ? 'waits for a restart' : k.restart ? 'needs a restart' : '–',
        },
        {
          title: 'actions',
          cell: (k, node) =>
            buttons(node, k.name, [
              [
                'Explain',
                () => {
                  location.hash = `#/config/${encodeURIComponent(k.name)}`;
                },
              ],
              ['Set', () => this.set(k)],
              ['Unset', () => this.unset(k), k.version > 0],
            ]),
        },
      ],
      {key: (k) => k.name, empty: 'No knob fits.'},
    );
    this.history = new Table(
      'Versions, the newest first',
      [
        {title: 'version', number: true, cell: (v) => number(v.version)},
        {title: 'when', cell: (v) => when(v.at_ms)},
        {title: 'by', cell: (v) => by(v)},
        {title: 'change', cell: (v) => v.change || '–'},
        {
          title: 'actions',
          cell: (v, node) =>
            buttons(node, `version ${v.version}`, [
              ['Changes', () => this.diff(v)],
              ['Roll back', () => this.rollBack(v.version), v.version !== this.newest],
            ]),
        },
      ],
      {key: (v) => v.version, empty: 'All knobs have their defaults.'},
    );
    this.defaults = el('p');
    this.explained = el('section', {class: 'panel', 'aria-labelledby': 'knob-title', hidden: true});
    this.changes = el('div', {role: 'status'});
    root.append(
      this.explained,
      el(
        'section',
        {class: 'panel'},
        el('h2', {text: 'Knobs'}),
        el(
          'div',
          {class: 'row search'},
          el('p', {}, el('label', {for: 'find-knob', text: 'name or words'}), this.search),
          el('p', {}, el('label', {class: 'check'}, this.changed, ' only what is set')),
        ),
        this.found,
        this.table.node,
      ),
      el(
        'section',
        {class: 'panel'},
        el('h2', {text: 'History'}),
        this.changes,
        this.history.node,
        this.defaults,
      ),
    );
  }

  enter(name) {
    this.name = name;
    this.shownFor = undefined;
  }

  async refresh() {
    const list = await call('config.list');
    this.knobs = list.config;
    const history = await call('config.history', {limit: 100});
    this.newest = history.version;
    this.filter();
    this.history.update(history.history);
    buttons(this.defaults, 'to version 0', [
      ['Back to the defaults', () => this.rollBack(0), this.newest > 0],
    ]);
    await this.explain();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (k) =>
      (!this.changed.checked || k.version > 0) &&
      words.every(
        (word) => k.name.toLowerCase().includes(word) || k.help.toLowerCase().includes(word),
      );
    const list = this.knobs.filter(fits);
    this.table.update(list);
    setText(this.found, `${number(list.length)} of ${number(this.knobs.length)} knobs`);
  }

  async explain() {
    const name = this.name;
    this.explained.hidden = !name;
    if (!name) return;
    const k = await call('config.explain', {name});
    if (name !== this.name) return;
    const title =
      this.explained.querySelector('h2') ?? el('h2', {id: 'knob-title', tabindex: '-1'});
    setText(title, k.name);
    const facts = [
      ['in effect', `${show(k.effective)} ${k.unit}`],
      ['set to', k.version > 0 ? show(k.value) : 'nothing'],
      ['default', show(k.default)],
      ['range', k.min === undefined ? 'a text' : `${number(k.min)} to ${number(k.max)}`],
      ['from', k.version > 0 ? `${by(k)}, version ${k.version}, ${when(k.at_ms)}` : 'default'],
      [
        'restart',
        k.restart
          ? k.restart_pending
            ? 'needed, and waited for'
            : 'needed for a change'
          : 'not needed',
      ],
    ];
    put(
      this.explained,
      el('p', {}, el('a', {href: '#/config', text: 'Close'})),
      title,
      el('p', {text: k.help}),
      el(
        'dl',
        {class: 'facts'},
        facts.flatMap(([a, b]) => [el('dt', {text: a}), el('dd', {text: b})]),
      ),
      el('h3', {text: 'Its changes'}),
      k.history.length === 0
        ? el('p', {text: 'None.'})
        : el(
            'ol',
            {reversed: true},
            [...k.history].reverse().map((h) =>
              el('li', {
                text:
                  `version ${h.version}, ${when(h.at_ms)}, ${by(h)}: ` +
                  `${show(h.from)} to ${show(h.to)}`,
              }),
            ),
          ),
    );
    if (this.shownFor !== name) {
      this.shownFor = name;
      title.focus();
    }
  }

  async set(k) {
    await ask({
      title: `Set ${k.name}?`,
      yes: 'Set',
      verb: 'config.set',
      text: k.help + (k.restart ? ' It holds after the next start of the daemon.' : ''),
      fields: [
        {name: 'value', label: `Value${k.unit ? ` (${k.unit})` : ''}`, value: String(k.value)},
      ],
      args: ({value}) => ({settings: {[k.name]: value}}),
      done: `${k.name} is set`,
    });
    this.refreshNow();
  }

  async unset(k) {
    await ask({
      title: `Unset ${k.name}?`,
      yes: 'Unset',
      verb: 'config.unset',
      args: {names: [k.name]},
      text: `Back to its default, ${show(k.default)}.`,
      done: `${k.name} has its default again`,
    });
    this.refreshNow();
  }

  async rollBack(version) {
    const {changes} = await call('config.diff', {from: this.newest, to: version});
    const words = changes.map((c) => `${c.name}: ${show(c.from)} to ${show(c.to)}`).join('; ');
    await ask({
      title: version === 0 ? 'Back to the defaults?' : `Roll back to version ${version}?`,
      yes: 'Roll back',
      verb: 'config.rollback',
      args: {version},
      done: `The settings of version ${version} hold again`,
      text: words
        ? `It becomes a new version. ${words}.`
        : 'Nothing would change but the number of the version.',
    });
    this.refreshNow();
  }

  async diff(v) {
    const {from, to, changes} = await call('config.diff', {
      from: Math.max(0, v.version - 1),
      to: v.version,
    });
    put(
      this.changes,
      el(
        'p',
        {},
        el('b', {text: `Version ${from} to ${to}: `}),
        changes.length === 0
          ? 'nothing'
          : changes.map((c) => `${c.name} ${show(c.from)} to ${show(c.to)}`).join('; '),
      ),
    );
  }
}
