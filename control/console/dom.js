// Elements, tables and numbers. Whatever comes from the server goes into text nodes and attributes,
// never into markup: prompts, names and paths are anybody's.

const kSvg = 'http://www.w3.org/2000/svg';

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'text') node.textContent = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

/// el('td', {class: 'x', onclick: f}, 'text', child): an element of the page.
export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) =>
  fill(document.createElementNS(kSvg, tag), props, children);
export const byId = (id) => document.getElementById(id);

/// Sets the text only if it is another: screen readers and selections stay undisturbed.
export function setText(node, text) {
  const value = String(text ?? '');
  if (node.textContent !== value) node.textContent = value;
}

/// Puts `children` into `node` unless they are what is there.
export function put(node, ...children) {
  const wanted = children.flat().filter((child) => child !== null && child !== undefined);
  const same =
    wanted.length === node.childNodes.length &&
    wanted.every((child, i) =>
      child instanceof Node
        ? child === node.childNodes[i]
        : node.childNodes[i].nodeType === Node.TEXT_NODE &&
          node.childNodes[i].data === String(child),
    );
  if (!same) node.replaceChildren(...wanted);
}

/// A table whose rows live as long as their key does, so that focus and selection stay where they
/// are while the numbers change. columns: [{title, cell(row, node), number}]; cell either returns a
/// text or puts what it wants into its node.
export class Table {
  constructor(caption, columns, {key, empty}) {
    Object.assign(this, {columns, key});
    this.rows = new Map();
    this.body = el('tbody', {role: 'rowgroup'});
    this.empty = el('p', {class: 'empty', text: empty});
    // Roles are written out: on a narrow screen rows become cards, and lose them otherwise.
    this.table = el(
      'table',
      {role: 'table'},
      el('caption', {class: 'hidden', text: caption}),
      el(
        'thead',
        {role: 'rowgroup'},
        el(
          'tr',
          {role: 'row'},
          columns.map((column) =>
            el('th', {
              scope: 'col',
              role: 'columnheader',
              class: column.number ? 'number' : null,
              text: column.title,
            }),
          ),
        ),
      ),
      this.body,
    );
    this.node = el('div', {class: 'table'}, this.table, this.empty);
    this.update([]);
  }

  update(list) {
    const seen = new Set();
    let before = null;
    for (const data of list) {
      const key = String(this.key(data));
      seen.add(key);
      const row = this.rows.get(key) ?? this.begin(key);
      row.data = data;
      this.columns.forEach((column, i) => {
        const node = row.cells[i];
        const text = column.cell(data, node);
        if (text === undefined) return;
        setText(node, text);
        node.classList.toggle('none', text === '–');
      });
      const place = before === null ? this.body.firstChild : before.nextSibling;
      if (place !== row.node) this.body.insertBefore(row.node, place);
      before = row.node;
    }
    for (const [key, row] of this.rows) {
      if (seen.has(key)) continue;
      row.node.remove();
      this.rows.delete(key);
    }
    this.table.hidden = list.length === 0;
    this.empty.hidden = list.length > 0;
  }

  begin(key) {
    const cells = this.columns.map((column) =>
      el('td', {role: 'cell', 'data-title': column.title, class: column.number ? 'number' : null}),
    );
    const row = {node: el('tr', {role: 'row'}, cells), cells, data: null};
    this.rows.set(key, row);
    return row;
  }
}

/// The buttons of a row, made once: actions [[title, run(), shown]].
export function buttons(node, name, actions) {
  const wanted = actions.filter(([, , shown]) => shown !== false);
  const signature = wanted.map(([title]) => title).join('|');
  if (node.dataset.actions !== signature) {
    node.dataset.actions = signature;
    node.classList.add('actions');
    node.replaceChildren(
      ...wanted.map(([title]) =>
        el('button', {type: 'button', text: title, 'aria-label': `${title} ${name}`}),
      ),
    );
  }
  wanted.forEach(([, run], i) => {
    node.children[i].onclick = run;
  });
}

export function badge(node, state, good, bad) {
  const kind = good.includes(state) ? 'good' : bad.includes(state) ? 'bad' : 'busy';
  if (node.dataset.state === state) return;
  node.dataset.state = state;
  put(node, el('span', {class: `badge ${kind}`, text: state}));
}

export const requestBadge = (node, state) =>
  badge(node, state, ['succeeded'], ['failed', 'expired', 'quarantined']);

export function bytes(n) {
  if (n === null || n === undefined || n < 0) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    ++i;
  }
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export const number = (n, digits = 0) =>
  n === null || n === undefined
    ? '–'
    : Number(n).toLocaleString('en', {maximumFractionDigits: digits});

/// A rate or a time as short as it can be read.
export function short(n) {
  if (n === null || n === undefined) return '–';
  const size = Math.abs(n);
  return number(n, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0) return '–';
  if (ms < 1000) return `${short(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(s < 10 ? 2 : 1)} s`;
  const whole = Math.floor(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

export const clock = (ms) => (ms ? new Date(ms).toLocaleTimeString('en-GB') : '–');
export function when(ms) {
  if (!ms) return '–';
  const date = new Date(ms);
  const pad = (n) => String(n).padStart(2, '0');
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(ms)}`;
}

let notices = 0;
/// One line that says what has been done; read out once, gone after a while.
export function notice(text) {
  const node = byId('notice');
  const mine = ++notices;
  setText(node, text);
  node.classList.add('shown');
  setTimeout(() => {
    if (mine !== notices) return;
    node.classList.remove('shown');
    node.textContent = '';
  }, 8000);
}

/// A request's id in a cell of a table, made once, leading to its timeline.
export function putRequestLink(node, id) {
  node.link ??= el('a', {href: `#/requests/${encodeURIComponent(id)}`, class: 'id', text: id});
  put(node, node.link);
}
