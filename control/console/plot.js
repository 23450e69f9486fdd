// Line plots over time as SVG of our own: an hour of samples, with a text for who cannot see them,
// a table for who wants the numbers, and a cursor for pointer and arrow keys.

import {clock, el, put, setText, short, svg} from './dom.js';

const kHeight = 170;
const kLeft = 46;
const kRight = 10;
const kTop = 10;
const kBottom = 22;
const kTableRows = 12;
const kTickMinutes = [1, 2, 5, 10, 20, 30];

/// 1, 2 or 5 times a power of ten, so that about four of them reach `most`.
function stepOf(most) {
  const raw = most / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}

export class Plot {
  /// series: [{name, field}], at most three; unit: of the values.
  constructor(title, unit, series) {
    Object.assign(this, {title, unit, series});
    this.samples = [];
    this.cursor = null;
    this.picture = svg('svg', {class: 'plot', role: 'img', tabindex: '0', height: kHeight});
    this.readout = el('p', {class: 'readout'});
    this.tableBody = el('tbody');
    this.details = el(
      'details',
      {},
      el('summary', {text: 'as a table'}),
      el(
        'div',
        {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${title}, as a table`},
        el(
          'table',
          {class: 'values'},
          el('caption', {class: 'hidden', text: title}),
          el(
            'thead',
            {},
            el(
              'tr',
              {},
              el('th', {scope: 'col', text: 'until'}),
              series.map((s) =>
                el('th', {scope: 'col', class: 'number', text: `${s.name} (${unit})`}),
              ),
            ),
          ),
          this.tableBody,
        ),
      ),
    );
    this.details.addEventListener('toggle', () => this.fillTable());
    this.latest = series.map(() => el('b'));
    const legend = el(
      'ul',
      {class: 'legend'},
      series.map((s, i) =>
        el(
          'li',
          {},
          el('span', {class: `key line${i}`, 'aria-hidden': 'true'}),
          `${s.name} `,
          this.latest[i],
        ),
      ),
    );
    this.node = el(
      'figure',
      {class: 'panel plot-panel'},
      el('figcaption', {}, el('h3', {text: `${title}`}), el('span', {class: 'unit', text: unit})),
      legend,
      this.picture,
      this.readout,
      this.details,
    );
    this.picture.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.picture.addEventListener('pointerleave', () => this.moveTo(null));
    this.picture.addEventListener('blur', () => this.moveTo(null));
    this.picture.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.picture);
  }

  /// samples: objects with at_ms and the fields, null where nothing is known.
  update(samples, startMs, endMs) {
    Object.assign(this, {samples, startMs, endMs});
    const last = samples.at(-1);
    this.series.forEach((s, i) => setText(this.latest[i], last ? short(last[s.field]) : '–'));
    this.picture.setAttribute('aria-label', this.describe());
    this.draw();
    if (this.details.open) this.fillTable();
  }

  describe() {
    const parts = this.series.map((s) => {
      const known = this.samples.map((sample) => sample[s.field]).filter((v) => v !== null);
      if (known.length === 0) return `${s.name}: no values`;
      return (
        `${s.name}: now ${short(this.samples.at(-1)[s.field])}, ` +
        `lowest ${short(Math.min(...known))}, highest ${short(Math.max(...known))}`
      );
    });
    return (
      `${this.title} in ${this.unit}, up to an hour. ${parts.join('. ')}. ` +
      'Arrow keys read single values; a table follows.'
    );
  }

  draw() {
    const width = this.picture.clientWidth;
    if (width === 0 || this.startMs === undefined) return;
    const values = this.samples.flatMap((sample) => this.series.map((s) => sample[s.field]));
    const most = Math.max(...values.filter((v) => v !== null), 0) || 1;
    const step = stepOf(most);
    const top = Math.ceil(most / step) * step;
    this.x = (ms) =>
      kLeft + ((ms - this.startMs) / (this.endMs - this.startMs)) * (width - kLeft - kRight);
    const y = (v) => kHeight - kBottom - (v / top) * (kHeight - kTop - kBottom);
    const parts = [];
    for (let v = 0; v <= top + step / 2; v += step) {
      parts.push(
        svg('line', {class: 'grid', x1: kLeft, x2: width - kRight, y1: y(v), y2: y(v)}),
        svg('text', {
          class: 'tick',
          x: kLeft - 6,
          y: y(v) + 4,
          'text-anchor': 'end',
          text: short(v),
        }),
      );
    }
    const every =
      kTickMinutes
        .map((m) => m * 60e3)
        .find((step) => (this.endMs - this.startMs) / step <= width / 60) ?? 3600e3;
    for (let t = Math.ceil(this.startMs / every) * every; t <= this.endMs; t += every) {
      parts.push(
        svg('text', {
          class: 'tick',
          x: this.x(t),
          y: kHeight - 6,
          'text-anchor': 'middle',
          text: clock(t).slice(0, 5),
        }),
      );
    }
    this.series.forEach((s, i) => {
      const {path, dots} = this.trace(s.field, y);
      parts.push(svg('path', {class: `line line${i}`, d: path}));
      for (const [cx, cy] of dots) parts.push(svg('circle', {class: `dot line${i}`, cx, cy, r: 2}));
    });
    this.rule = svg('line', {class: 'rule', y1: kTop, y2: kHeight - kBottom, visibility: 'hidden'});
    this.picture.setAttribute('viewBox', `0 0 ${width} ${kHeight}`);
    put(this.picture, ...parts, this.rule);
    this.moveTo(this.cursor);
  }

  /// Lines over what is known, broken where nothing is; a value alone is a dot.
  trace(field, y) {
    let path = '';
    const dots = [];
    let run = [];
    const flush = () => {
      if (run.length === 1) dots.push(run[0]);
      else if (run.length > 1)
        path += `M${run.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join('L')}`;
      run = [];
    };
    for (const sample of this.samples) {
      if (sample[field] === null) flush();
      else run.push([this.x(sample.at_ms), y(sample[field])]);
    }
    flush();
    return {path, dots};
  }

  point(x) {
    let best = null;
    this.samples.forEach((sample, i) => {
      if (
        best === null ||
        Math.abs(this.x(sample.at_ms) - x) < Math.abs(this.x(this.samples[best].at_ms) - x)
      ) {
        best = i;
      }
    });
    this.moveTo(best);
  }

  key(event) {
    const moves = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity};
    if (!(event.key in moves) || this.samples.length === 0) return;
    event.preventDefault();
    const last = this.samples.length - 1;
    const from = this.cursor ?? (event.key === 'ArrowRight' ? last - 1 : last + 1);
    this.readout.setAttribute('aria-live', 'polite');
    this.moveTo(Math.max(0, Math.min(last, from + moves[event.key])));
  }

  moveTo(i) {
    this.cursor = i !== null && i < this.samples.length ? i : null;
    const sample = this.cursor === null ? null : this.samples[this.cursor];
    this.rule?.setAttribute('visibility', sample ? 'visible' : 'hidden');
    if (!sample) return setText(this.readout, '');
    this.rule.setAttribute('x1', this.x(sample.at_ms));
    this.rule.setAttribute('x2', this.x(sample.at_ms));
    setText(
      this.readout,
      `${clock(sample.at_ms)}  ` +
        this.series.map((s) => `${s.name} ${short(sample[s.field])}`).join(', '),
    );
  }

  /// The time cut into a few parts: the mean of rates and depths, the worst of times.
  fillTable() {
    if (!this.details.open) return;
    const parts = Math.min(kTableRows, this.samples.length);
    const rows = [];
    for (let i = 0; i < parts; ++i) {
      const part = this.samples.slice(
        Math.floor((i * this.samples.length) / parts),
        Math.floor(((i + 1) * this.samples.length) / parts),
      );
      rows.unshift(
        el(
          'tr',
          {},
          el('th', {scope: 'row', text: clock(part.at(-1).at_ms)}),
          this.series.map((s) => {
            const known = part.map((sample) => sample[s.field]).filter((v) => v !== null);
            const value =
              known.length === 0
                ? null
                : s.worst
                  ? Math.max(...known)
                  : known.reduce((a, b) => a + b, 0) / known.length;
            return el('td', {class: 'number', text: short(value)});
          }),
        ),
      );
    }
    this.tableBody.replaceChildren(...rows);
  }
}
