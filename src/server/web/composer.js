// Where a person asks, or writes code of their own, with completion from the kernel.

import { Icon, Tool, attempt, html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

/** The kernel counts characters, a text field units of UTF-16. */
const characters = (text, units) => [...text.slice(0, units)].length;
const units = (text, count) => [...text].slice(0, count).join("").length;

const MODES = [
  ["ask", "Ask", "The model answers and runs code"],
  ["plan", "Plan", "The model writes a plan and runs nothing until you approve it"],
  ["code", "Code", "Code of your own"],
];

export function Composer({ draft, mode, setMode, isBusy, onSend, onStop, onFiles, complete, placeholder, children }) {
  const [text, setText] = useState("");
  const [choices, setChoices] = useState(null);
  const [isSending, setSending] = useState(false);
  const field = useRef();
  const picker = useRef();
  const isCode = mode === "code";

  useEffect(() => {
    if (!draft) return;
    setText((now) => (draft.append ? `${now}${now && !/\s$/.test(now) ? " " : ""}${draft.text}` : draft.text));
    field.current.focus();
  }, [draft]);
  useLayoutEffect(() => {
    const { style } = field.current;
    style.height = "auto";
    style.height = `${Math.min(field.current.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text, mode]);

  const send = () => attempt(async () => {
    if (!text.trim() || isSending) return;
    setSending(true);
    try {
      await onSend(text, mode);
      setText("");
      // A plan is for one question.
      if (mode === "plan") setMode("ask");
    } finally {
      setSending(false);
      field.current?.focus();
    }
  });

  const put = (match, { start, end }) => {
    const now = field.current.value;
    const [from, to] = [units(now, start), units(now, end)];
    field.current.setRangeText(match, from, to, "end");
    setText(field.current.value);
    setChoices(null);
  };
  const tab = async () => {
    const { value, selectionStart } = field.current;
    const before = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
    if (!before.trim() || !complete) {
      field.current.setRangeText("    ", selectionStart, field.current.selectionEnd, "end");
      setText(field.current.value);
      return;
    }
    const found = await attempt(() => complete(value, characters(value, selectionStart)));
    if (!found?.matches?.length || field.current.value !== value) return;
    if (found.matches.length === 1) put(found.matches[0], found);
    else setChoices({ ...found, at: 0 });
  };
  const keys = (event) => {
    const { key } = event;
    if (choices) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[key];
      if (step) setChoices({ ...choices, at: (choices.at + step + choices.matches.length) % choices.matches.length });
      else if (key === "Enter" || key === "Tab") put(choices.matches[choices.at], choices);
      else {
        setChoices(null);
        if (key !== "Escape") return;
      }
      event.preventDefault();
    } else if (key === "Enter" && !event.isComposing && (isCode ? event.ctrlKey || event.metaKey || event.shiftKey : !event.shiftKey)) {
      event.preventDefault();
      send();
    } else if (key === "Tab" && isCode && !event.shiftKey && !event.altKey && text !== "") {
      event.preventDefault();
      tab();
    } else if (key === "Escape" && isBusy) {
      onStop();
    }
  };
  const list = choices && html`<ul class="choices" role="listbox" id="choices" aria-label="Completions">${choices.matches.slice(Math.max(0, choices.at - 6), Math.max(8, choices.at + 2)).map((match) => html`
    <li key=${match} id=${`choice-${choices.matches.indexOf(match)}`} role="option" aria-selected=${match === choices.matches[choices.at]} onPointerDown=${(event) => { event.preventDefault(); put(match, choices); }}>${match}</li>`)}</ul>`;

  return html`<div class=${`composer ${isCode ? "is-code" : ""}`}>
    ${list}
    <textarea ref=${field} rows="1" value=${text} placeholder=${isCode ? "Code of your own. Tab completes, Shift+Enter runs." : mode === "plan" && !isBusy ? "Ask a question; the model writes a plan first" : placeholder} aria-label=${isCode ? "Code" : "Question"}
      spellcheck=${!isCode} data-idle=${text === ""} aria-controls=${choices ? "choices" : undefined} aria-activedescendant=${choices ? `choice-${choices.at}` : undefined}
      onInput=${(event) => { setText(event.target.value); setChoices(null); }} onKeyDown=${keys} onBlur=${() => setChoices(null)}></textarea>
    <div class="composer-line">
      <${Tool} icon="plus" label="Add files" onClick=${() => picker.current.click()} />
      <input ref=${picker} type="file" multiple hidden aria-hidden="true" tabindex="-1" onChange=${(event) => { onFiles([...event.target.files]); event.target.value = ""; }} />
      ${setMode && html`<div class="switch" role="radiogroup" aria-label="Input mode">${MODES.map(([one, name, title]) => html`
        <button type="button" role="radio" aria-checked=${mode === one} title=${title} onClick=${() => { setMode(one); field.current.focus(); }}>${name}</button>`)}</div>`}
      ${children}
      <span class="space"></span>
      ${isBusy && html`<button type="button" class="round stop" aria-label="Stop" title="Stop (Esc)" onClick=${onStop}><${Icon} name="stop" /></button>`}
      ${(!isBusy || isCode) && html`<button type="button" class="round primary" aria-label=${isCode ? "Run" : "Send"} title=${isCode ? "Run (Shift+Enter)" : "Send (Enter)"} disabled=${!text.trim() || isSending} onClick=${send}><${Icon} name=${isCode ? "run" : "send"} /></button>`}
    </div>
  </div>`;
}
