// Actions: each is confirmed, and ends with a line that says what became of it.

import {call, ApiError} from './api.js';
import {byId, el, notice, put, setText} from './dom.js';

/// Asks, does it, says so. what: {title, text, yes, verb, args, done, fields}; fields [{name,
/// label, value, options}] are filled in by the operator and go into args (or into args(values)).
/// True if it was done, false if the operator thought better of it. A refusal stays in the dialog.
export function ask(what) {
  const dialog = byId('ask');
  const back = document.activeElement;
  setText(byId('ask-title'), what.title);
  setText(byId('ask-text'), what.text);
  setText(byId('ask-yes'), what.yes);
  setText(byId('ask-error'), '');
  const inputs = (what.fields ?? []).map((field) => {
    const input = field.options
      ? el(
          'select',
          {id: `ask-${field.name}`},
          field.options.map((option) => el('option', {text: option})),
        )
      : el('input', {id: `ask-${field.name}`, spellcheck: 'false', autocomplete: 'off'});
    input.value = field.value ?? '';
    return [field, input];
  });
  put(
    byId('ask-fields'),
    inputs.map(([field, input]) =>
      el('p', {}, el('label', {for: input.id, text: field.label}), input),
    ),
  );
  return new Promise((resolve) => {
    let done = false;
    const form = dialog.querySelector('form');
    const yes = byId('ask-yes');
    form.onsubmit = async (event) => {
      event.preventDefault();
      const values = Object.fromEntries(inputs.map(([field, input]) => [field.name, input.value]));
      const args = typeof what.args === 'function' ? what.args(values) : {...what.args, ...values};
      yes.disabled = true;
      setText(byId('ask-error'), '');
      try {
        await call(what.verb, args);
        done = true;
        dialog.close();
        notice(what.done);
      } catch (e) {
        if (!(e instanceof ApiError)) throw e;
        setText(byId('ask-error'), e.describe());
      } finally {
        yes.disabled = false;
      }
    };
    byId('ask-no').onclick = () => dialog.close();
    dialog.onclose = () => {
      if (back?.isConnected) back.focus();
      resolve(done);
    };
    dialog.showModal();
    (inputs[0]?.[1] ?? byId('ask-no')).focus();
  });
}
