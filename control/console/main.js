// The page: which view is shown, the clock that keeps it fresh, who is logged in.

import {ApiError, call, key} from './api.js';
import {ChatView} from './chat.js';
import {ConfigView} from './config.js';
import {byId, clock, notice, setText} from './dom.js';
import {NodesView} from './nodes.js';
import {PullsView} from './pulls.js';
import {QueueView} from './queue.js';
import {RequestsView} from './requests.js';
import {StatusView} from './status.js';

const kEvery = 2000;
const kEveryHidden = 20000;
const kBackOffMost = 10000;
const kViews = {
  status: StatusView,
  queue: QueueView,
  requests: RequestsView,
  nodes: NodesView,
  pulls: PullsView,
  chat: ChatView,
  config: ConfigView,
};

const views = {};
let current = null;
let failures = 0;
let awaySince = null;
let timer = null;
let running = false;
let again = false;

function applyTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function setUpTheme() {
  const select = byId('theme');
  select.value = localStorage.getItem('holdfast.theme') ?? 'auto';
  applyTheme(select.value);
  select.onchange = () => {
    localStorage.setItem('holdfast.theme', select.value);
    applyTheme(select.value);
  };
}

/// "#/requests/ID": the view, and what of it is wanted. Names that nobody knows are the status.
function route() {
  const [, name, ...rest] = location.hash.split('/');
  const view = name in kViews ? name : 'status';
  let what = '';
  try {
    what = decodeURIComponent(rest.join('/'));
  } catch {
    /* not ours */
  }
  return [view, what];
}

function show() {
  const [name, what] = route();
  const turned = current !== null && name !== current;
  current = name;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  for (const view of Object.keys(kViews)) byId(`view-${view}`).hidden = view !== name;
  byId('login').hidden = true;
  document.title = `${byId(`title-${name}`).textContent}, Holdfast`;
  if (!views[name]) {
    views[name] = new kViews[name](byId(`view-${name}`));
    views[name].refreshNow = tick;
  }
  views[name].enter?.(what);
  if (turned && what === '') byId('main').focus({preventScroll: true});
}

function health(text, kind) {
  const node = byId('health');
  setText(node, text);
  node.className = `health ${kind}`;
}

function noteUp() {
  failures = 0;
  byId('logout').hidden = key.get() === '';
  if (awaySince === null) return;
  health(`Connected again at ${clock(Date.now())}; it was away since ${clock(awaySince)}.`, 'good');
  awaySince = null;
  setTimeout(() => {
    if (awaySince === null) health('', '');
  }, 8000);
}

function noteAway(error) {
  ++failures;
  awaySince ??= Date.now();
  if (current === null) show();
  const who = error.status === 0 ? 'The gateway' : 'The daemon';
  health(
    `${who} is unreachable since ${clock(awaySince)}. What is shown is from then; ` +
      'this goes on by itself when it returns.',
    'bad',
  );
}

function login(error) {
  clearTimeout(timer);
  for (const view of Object.keys(kViews)) byId(`view-${view}`).hidden = true;
  const known = key.get() !== '';
  key.forget();
  byId('logout').hidden = true;
  byId('login').hidden = false;
  setText(byId('login-why'), known ? '' : 'This server wants a key.');
  setText(byId('login-error'), known || error.status === 403 ? error.message : '');
  byId('login-key').value = '';
  byId('login-key').focus();
}

/// One round: the status, then what the view shows. Whoever asks during one gets another after it.
async function tick() {
  if (running) {
    again = true;
    return;
  }
  running = true;
  clearTimeout(timer);
  try {
    const status = await call('status');
    if (!byId('login').hidden || current === null) show();
    noteUp();
    await views[current].refresh(status);
  } catch (e) {
    running = again = false;
    if (!(e instanceof ApiError)) {
      plan();
      throw e;
    }
    if (e.status === 401 || e.status === 403) return login(e);
    if (e.away || e.status >= 500) noteAway(e);
    else notice(e.describe());
  }
  running = false;
  plan();
}

function plan() {
  clearTimeout(timer);
  const wait =
    failures > 0
      ? Math.min(500 * 2 ** failures, kBackOffMost)
      : document.hidden
        ? kEveryHidden
        : kEvery;
  timer = setTimeout(tick, again ? 0 : wait);
  again = false;
}

byId('skip').onclick = (event) => {
  event.preventDefault();
  byId('main').focus();
};
byId('login-form').onsubmit = (event) => {
  event.preventDefault();
  key.set(byId('login-key').value.trim());
  byId('login-key').value = '';
  tick();
};
byId('logout').onclick = () => {
  key.forget();
  sessionStorage.clear();
  location.reload();
};
window.onhashchange = () => {
  if (!byId('login').hidden) return;
  show();
  tick();
};
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && byId('login').hidden) tick();
});
window.addEventListener('unhandledrejection', (event) => {
  notice(
    event.reason instanceof ApiError
      ? event.reason.describe()
      : `This page has a fault: ${event.reason?.message}`,
  );
});
setUpTheme();
tick();
