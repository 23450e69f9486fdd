// Downloads of models as durable jobs: those there are, a new one, the end of one.

import {ApiError, call} from './api.js';
import {ask} from './ask.js';
import {Table, badge, buttons, bytes, clock, duration, el, notice, put, setText, when} from './dom.js';

const kEnded = ['done', 'failed', 'cancelled'];
const kRateOver = 10000;

/// Bytes per second of each pull, from what came within the last ten seconds.
class Rates {
  constructor() {
    this.seen = new Map();
  }

  note(pulls, now) {
    for (const name of this.seen.keys()) {
      if (!pulls.some((pull) => pull.name === name)) this.seen.delete(name);
    }
    for (const pull of pulls) {
      const samples = this.seen.get(pull.name) ?? [];
      if (samples.length > 0 && samples.at(-1).bytes > pull.done_bytes) samples.length = 0;
      samples.push({at: now, bytes: pull.done_bytes});
      while (samples.length > 2 && now - samples[1].at > kRateOver) samples.shift();
      this.seen.set(pull.name, samples);
    }
  }

  of(pull) {
    const samples = this.seen.get(pull.name) ?? [];
    if (pull.state !== 'downloading' || samples.length < 2) return null;
    const [first, last] = [samples[0], samples.at(-1)];
    return last.at > first.at ? (1000 * (last.bytes - first.bytes)) / (last.at - first.at) : null;
  }
}

/// What a person should know of a pull, in a line.
function saying(pull) {
  if (pull.state === 'done') return [pull.path, pull.note].filter(Boolean).join('; ');
  const wrong = pull.error ? `${pull.error_code ? `${pull.error_code}: ` : ''}${pull.error}` : '';
  if (pull.state !== 'waiting') return wrong || pull.note || '–';
  return `${wrong || 'it waits'}; the next try is at ${clock(pull.next_ms)}`;
}

export class PullsView {
  constructor(root) {
    this.rates = new Rates();
    this.table = new Table(
      'Pulls, the newest first',
      [
        {title: 'model', cell: (p) => p.name},
        {title: 'source', cell: (p) => p.source},
        {title: 'state', cell: (p, node) => badge(node, p.state, ['done'], ['failed'])},
        {title: 'progress', cell: (p, node) => this.progress(p, node)},
        {title: 'rate', number: true, cell: (p) => this.rate(p)},
        {title: 'what', cell: saying},
        {title: 'begun', number: true, cell: (p) => when(p.created_ms)},
        {title: 'actions', cell: (p, node) => this.actions(p, node)},
      ],
      {key: (p) => p.name, empty: 'Nothing was pulled.'},
    );
    root.append(
      el('section', {class: 'panel'}, el('h2', {text: 'Pull a model'}), this.form()),
      el('section', {class: 'panel'}, el('h2', {text: 'Pulls'}), this.table.node),
    );
  }

  form() {
    const text = (id, more) =>
      el('input', {id, type: 'text', spellcheck: 'false', autocomplete: 'off', ...more});
    this.source = text('pull-source', {required: true, 'aria-describedby': 'pull-hint'});
    this.name = text('pull-name');
    this.load = el('input', {id: 'pull-load', type: 'checkbox'});
    this.error = el('p', {class: 'error', role: 'alert'});
    this.start = el('button', {type: 'submit', class: 'primary', text: 'Pull'});
    return el(
      'form',
      {onsubmit: (event) => this.submit(event)},
      el(
        'div',
        {class: 'row search'},
        el('p', {class: 'wide'}, el('label', {for: 'pull-source', text: 'Source'}), this.source),
        el('p', {}, el('label', {for: 'pull-name', text: "Name (else the source's)"}), this.name),
        el('label', {class: 'check'}, this.load, 'load it when it is there'),
        this.start,
      ),
      el('p', {
        id: 'pull-hint',
        class: 'hint',
        text:
          'hf.co/ORG/REPO[:QUANT], the address of a GGUF file, ollama://NAME[:TAG] or ' +
          'oci://HOST/REPOSITORY[:TAG]',
      }),
      this.error,
    );
  }

  async submit(event) {
    event.preventDefault();
    const args = {source: this.source.value.trim(), load: this.load.checked};
    if (this.name.value.trim()) args.name = this.name.value.trim();
    this.start.disabled = true;
    setText(this.error, '');
    try {
      const {name} = await call('pulls.start', args);
      notice(name ? `${name} is being pulled` : 'The pull has begun');
      this.source.value = this.name.value = '';
    } catch (e) {
      if (!(e instanceof ApiError)) throw e;
      setText(this.error, e.describe());
    } finally {
      this.start.disabled = false;
    }
    this.refreshNow?.();
  }

  progress(pull, node) {
    if (!node.bar) {
      node.bar = el('progress', {max: '1', 'aria-label': `progress of ${pull.name}`});
      node.words = el('span', {class: 'unit'});
      put(node, el('div', {}, node.bar, node.words));
    }
    const known = pull.bytes > 0;
    if (known) node.bar.value = Math.min(pull.done_bytes / pull.bytes, 1);
    else if (pull.state === 'done') node.bar.value = 1;
    else if (kEnded.includes(pull.state)) node.bar.value = 0;
    else node.bar.removeAttribute('value');
    setText(
      node.words,
      known ? `${bytes(pull.done_bytes)} of ${bytes(pull.bytes)}` : bytes(pull.done_bytes),
    );
  }

  rate(pull) {
    const rate = this.rates.of(pull);
    if (rate === null) return '–';
    const left = pull.bytes > 0 && rate > 0 ? (1000 * (pull.bytes - pull.done_bytes)) / rate : -1;
    return `${bytes(rate)}/s` + (left >= 0 ? `, ${duration(left)} left` : '');
  }

  actions(pull, node) {
    buttons(node, pull.name, [
      [
        'Cancel',
        () =>
          ask({
            title: `Cancel the pull of ${pull.name}?`,
            yes: 'Cancel it',
            verb: 'pulls.cancel',
            args: {name: pull.name},
            done: `The pull of ${pull.name} is cancelled`,
            text: 'What has come of it is deleted. It can be pulled again from the beginning.',
          }).then(() => this.refreshNow?.()),
        !kEnded.includes(pull.state),
      ],
      [
        'Pull again',
        () =>
          ask({
            title: `Pull ${pull.name} again?`,
            yes: 'Pull',
            verb: 'pulls.start',
            args: {source: pull.source, name: pull.name, load: pull.load},
            done: `${pull.name} is being pulled`,
            text: `From ${pull.source}. What is on the disk is not fetched again.`,
          }).then(() => this.refreshNow?.()),
        ['failed', 'cancelled'].includes(pull.state),
      ],
    ]);
  }

  async refresh() {
    const {pulls} = await call('pulls.list');
    this.rates.note(pulls, Date.now());
    this.table.update([...pulls].sort((a, b) => b.created_ms - a.created_ms));
  }
}
