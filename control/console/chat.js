// Chat playground. What is asked here is a durable request like any other: it goes on over a
// restart of the daemon, of the gateway and of this page.

import {byId, el, notice, number, put, setText, short} from './dom.js';
import {ApiError} from './api.js';
import {Answer} from './stream.js';

const kStored = 'holdfast.chat';
const kSampling = [
  ['temperature', 'temperature', '0 to 2, 0 is greedy'],
  ['top_p', 'top p', '0 to 1'],
  ['top_k', 'top k', '0: all'],
  ['min_p', 'min p', '0 to 1'],
  ['repetition_penalty', 'repetition penalty', '1: none'],
  ['seed', 'seed', 'drawn'],
  ['max_tokens', 'tokens at most', 'what fits'],
];

/// One message of the conversation on the page.
class Message {
  constructor(role, text) {
    this.role = role;
    this.text = new Text();
    this.thought = new Text();
    this.thinking = el(
      'details',
      {hidden: true},
      el('summary', {text: 'reasoning'}),
      el('div', {class: 'text thought'}, this.thought),
    );
    this.meta = el('p', {class: 'meta'});
    this.node = el(
      'article',
      {class: `message ${role}`, 'aria-label': role === 'user' ? 'You' : role},
      el('h3', {text: role === 'user' ? 'You' : role}),
      this.thinking,
      el('div', {class: 'text'}, this.text),
      this.meta,
    );
    this.add(text);
  }
  get content() {
    return this.text.data;
  }
  add(text, reasoning = '') {
    this.text.appendData(text);
    this.thought.appendData(reasoning);
    if (reasoning) this.thinking.hidden = false;
  }
  clear() {
    this.text.data = this.thought.data = '';
  }
}

export class ChatView {
  constructor(root) {
    this.messages = [];
    this.answer = null;
    this.log = el('div', {
      class: 'chat-log',
      role: 'log',
      'aria-label': 'Conversation',
      'aria-live': 'off',
      tabindex: '0',
      'data-empty':
        'What is asked here is a durable request: ' +
        'its answer goes on over restarts of the server, and of this page.',
    });
    this.state = el('p', {class: 'chat-state', role: 'status'});
    this.model = el('select', {id: 'chat-model', required: true});
    this.raw = el('input', {type: 'checkbox', id: 'chat-raw'});
    this.system = el('textarea', {id: 'chat-system', rows: '2'});
    this.prompt = el('textarea', {
      id: 'chat-prompt',
      rows: '3',
      required: true,
      'aria-describedby': 'chat-hint',
      onkeydown: (event) => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          this.form.requestSubmit();
        }
      },
    });
    this.sendButton = el('button', {class: 'primary', text: 'Send'});
    this.stopButton = el('button', {
      type: 'button',
      text: 'Stop',
      disabled: true,
      onclick: () => this.stop(),
    });
    const sampling = kSampling.map(([name, label, hint]) =>
      el(
        'p',
        {},
        el('label', {for: `chat-${name}`, text: label}),
        el('input', {
          id: `chat-${name}`,
          inputmode: 'decimal',
          placeholder: hint,
          autocomplete: 'off',
          size: '8',
        }),
      ),
    );
    this.form = el(
      'form',
      {
        class: 'chat-form',
        onsubmit: (event) => {
          event.preventDefault();
          this.submit();
        },
      },
      el('label', {for: 'chat-prompt', text: 'Message'}),
      this.prompt,
      el('p', {class: 'hint', id: 'chat-hint', text: 'Enter sends, Shift+Enter makes a new line.'}),
      el(
        'p',
        {class: 'buttons'},
        this.sendButton,
        this.stopButton,
        el('button', {type: 'button', text: 'New conversation', onclick: () => this.reset()}),
      ),
    );
    root.append(
      el(
        'div',
        {class: 'chat'},
        el(
          'aside',
          {class: 'panel settings', 'aria-label': 'Model and sampling'},
          el('p', {}, el('label', {for: 'chat-model', text: 'model'}), this.model),
          el(
            'p',
            {},
            el('label', {class: 'check'}, this.raw, ' continue the bare text, no chat template'),
          ),
          el('p', {}, el('label', {for: 'chat-system', text: 'system prompt'}), this.system),
          ...sampling,
        ),
        el('div', {class: 'panel talk'}, this.log, this.state, this.form),
      ),
    );
    this.restore();
  }

  async refresh(status) {
    const models = status.models.filter((m) => m.makes === 'text');
    const names = models.map((m) => m.name);
    this.chats = new Map(models.map((m) => [m.name, m.chat]));
    if (names.join('\n') !== [...this.model.options].map((o) => o.value).join('\n')) {
      const before = this.model.value;
      this.model.replaceChildren(...names.map((name) => el('option', {value: name, text: name})));
      if (names.includes(before)) this.model.value = before;
    }
    const bare = this.chats.get(this.model.value) === false;
    this.raw.disabled = bare;
    if (bare) this.raw.checked = true;
  }

  /// The fields that were filled in; what is empty is the server's to choose.
  sampling() {
    const fields = {};
    for (const [name, label] of kSampling) {
      const text = byId(`chat-${name}`).value.trim();
      if (text === '') continue;
      const value = Number(text);
      if (!Number.isFinite(value)) throw new Error(`${label}: "${text}" is no number`);
      fields[name] = value;
    }
    return fields;
  }

  async submit() {
    const text = this.prompt.value;
    if (this.answer || !text.trim() || !this.model.value) return;
    let fields;
    try {
      fields = this.sampling();
    } catch (e) {
      return setText(this.state, e.message);
    }
    const stream = {
      model: this.model.value,
      stream: true,
      stream_options: {include_usage: true},
      ...fields,
    };
    this.push(new Message('user', text));
    this.prompt.value = '';
    const history = this.messages.map((m) => ({role: m.role, content: m.content}));
    const system = this.system.value.trim();
    if (system) history.unshift({role: 'system', content: system});
    const [path, body] = this.raw.checked
      ? ['/v1/completions', {...stream, prompt: text}]
      : ['/v1/chat/completions', {...stream, messages: history}];
    await this.show((answer) => answer.post(path, body));
  }

  push(message) {
    this.messages.push(message);
    this.log.append(message.node);
    this.follow(true);
  }

  /// Stays at the end of the text, unless somebody has scrolled up to read.
  follow(always) {
    const near = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
    if (always || near) this.log.scrollTop = this.log.scrollHeight;
  }

  /// Runs one answer to its end.
  async show(begin) {
    const message = new Message('assistant', '');
    this.push(message);
    const facts = {first: null, last: null, tokens: 0, finish: '', error: '', reconnects: 0};
    let state = '';
    const say = (text) => {
      if (text === 'reconnecting' && state !== text) ++facts.reconnects;
      state = text;
      const words = {
        streaming: 'The answer comes.',
        reconnecting: 'Reconnecting …',
        waiting: 'Nothing comes: it waits for its turn or for the server, and goes on by itself.',
      };
      setText(this.state, words[text] ?? text);
      this.state.dataset.state = text;
    };
    this.answer = new Answer({
      begin: (id) => {
        this.pending = id;
        this.showMeta(message, id, facts);
        this.save();
      },
      restart: () => message.clear(),
      data: (object, index) => this.take(message, facts, object, index),
      state: say,
    });
    this.busy(true);
    say('Sent.');
    try {
      await begin(this.answer);
      say(this.answer.stopping ? 'Stopped.' : facts.error || `Done: ${facts.finish || 'ended'}.`);
    } catch (e) {
      if (!(e instanceof ApiError)) throw e;
      say(this.answer.stopping ? 'Stopped.' : e.describe());
      if (message.content === '') this.drop(message);
    } finally {
      this.showMeta(message, this.answer.id, facts);
      this.answer = this.pending = null;
      this.busy(false);
      this.save();
    }
  }

  take(message, facts, object, index) {
    if (object.error) facts.error = `${object.error.code}: ${object.error.message}`;
    const choice = object.choices?.[0];
    message.add(
      choice?.delta?.content ?? choice?.text ?? '',
      choice?.delta?.reasoning_content ?? '',
    );
    facts.finish = choice?.finish_reason ?? facts.finish;
    if (index !== null && index > facts.tokens) {
      facts.tokens = index;
      facts.last = performance.now();
      if (facts.first === null) Object.assign(facts, {first: facts.last, firstIndex: index});
    }
    if (object.usage) facts.usage = object.usage;
    this.showMeta(message, this.answer.id, facts);
    this.follow(false);
  }

  showMeta(message, id, facts) {
    const seconds = (facts.last - facts.first) / 1000;
    const rate =
      facts.tokens > facts.firstIndex && seconds > 0
        ? (facts.tokens - facts.firstIndex) / seconds
        : null;
    const prompt = facts.usage ? `, prompt ${number(facts.usage.prompt_tokens)}` : '';
    message.link ??= id
      ? el('a', {href: `#/requests/${encodeURIComponent(id)}`, class: 'id', text: id})
      : undefined;
    put(
      message.meta,
      message.link,
      ` ${number(facts.tokens)} tokens${prompt}` +
        (rate ? `, ${short(rate)} per second` : '') +
        (facts.reconnects > 0 ? `, reconnected ${facts.reconnects} times` : ''),
    );
  }

  drop(message) {
    this.messages.splice(this.messages.indexOf(message), 1);
    message.node.remove();
  }

  busy(on) {
    this.sendButton.disabled = on;
    this.stopButton.disabled = !on;
    this.log.setAttribute('aria-busy', on);
  }

  async stop() {
    this.stopButton.disabled = true;
    await this.answer?.cancel();
  }

  reset() {
    if (this.answer) return notice('Stop the answer first.');
    this.messages = [];
    this.log.replaceChildren();
    setText(this.state, '');
    this.save();
    this.prompt.focus();
  }

  save() {
    const whole = this.messages.filter((m) => !this.pending || m !== this.messages.at(-1));
    sessionStorage.setItem(
      kStored,
      JSON.stringify({
        pending: this.pending ?? null,
        messages: whole.map((m) => [m.role, m.content]),
      }),
    );
  }

  restore() {
    const stored = JSON.parse(sessionStorage.getItem(kStored) ?? '{"messages": []}');
    for (const [role, text] of stored.messages) this.push(new Message(role, text));
    if (stored.pending) this.show((answer) => answer.resume(stored.pending));
  }
}
