// Where a person writes.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { busy, say, stop } from "./conversation.js";
import { Icon } from "./icons.js";
import { model } from "./server.js";
import { change, settings } from "./settings.js";

/** What a person does next is to write: where the focus goes when what had it is gone. */
export function focusMessage(): void {
  document.getElementById("message")?.focus();
}

export function Composer() {
  const text = useSignal("");
  const field = useRef<HTMLTextAreaElement>(null);
  const fit = () => {
    const area = field.current!;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  };
  useEffect(fit, [text.value]);
  useEffect(focusMessage, []);
  const send = (event: Event) => {
    event.preventDefault();
    const content = text.value.trim();
    if (content && !busy.value && model.value) {
      text.value = "";
      void say(content);
    }
  };
  const key = (event: KeyboardEvent) => {
    // While an input method composes, Enter picks a candidate.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      send(event);
    }
  };
  const halt = () => {
    stop();
    focusMessage();
  };
  return (
    <form class="composer" onSubmit={send}>
      <label class="hidden" for="message">
        Message
      </label>
      <textarea
        id="message"
        ref={field}
        rows={1}
        placeholder="Ask something"
        aria-describedby="message-keys"
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={key}
      />
      <span id="message-keys" class="hidden">
        Enter sends, Shift and Enter begins a new line, Escape stops a reply.
      </span>
      <div class="composer-row">
        <Switch label="Drafts" on={settings.value.draft} set={(draft) => change({ draft })} />
        <Switch label="Tint tokens" on={settings.value.tints} set={(tints) => change({ tints })} />
        <span class="space" />
        {busy.value ? (
          <button type="button" class="round" onClick={halt} aria-label="Stop">
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="round" disabled={!text.value.trim() || !model.value} aria-label="Send">
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
}

function Switch({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <button type="button" class="switch" role="switch" aria-checked={on} onClick={() => set(!on)}>
      <span class="track" aria-hidden="true" />
      {label}
    </button>
  );
}
