// What can be set, in a dialog.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { greet, keyRefused, version } from "./server.js";
import { SAMPLING, apiKey, change, reset, settings } from "./settings.js";
import type { Theme } from "./settings.js";

/** Whether the dialog is open. */
export const settingsOpen = signal(false);

export function SettingsDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = settingsOpen.value;
  useEffect(() => {
    if (open) {
      dialog.current?.showModal();
    } else {
      dialog.current?.close();
    }
  }, [open]);
  const close = () => (settingsOpen.value = false);
  return (
    <dialog ref={dialog} class="settings" aria-labelledby="settings-title" onClose={close}>
      {open && (
        <form method="dialog" noValidate>
          <header>
            <h2 id="settings-title">Settings</h2>
            <button type="submit">Done</button>
          </header>
          <Prompt />
          <Sampling />
          <Tools />
          <Page />
          <footer>
            <button type="button" class="quiet" onClick={reset}>
              Reset prompt, sampling and tools
            </button>
            <span class="note">
              {version.value && `Forerunner ${version.value.version}. `}
              <a href="/assets/licences.txt" target="_blank">
                Licences
              </a>
            </span>
          </footer>
        </form>
      )}
    </dialog>
  );
}

function Prompt() {
  return (
    <label>
      System prompt
      <textarea
        rows={3}
        value={settings.value.system}
        onInput={(event) => change({ system: event.currentTarget.value })}
      />
    </label>
  );
}

function Sampling() {
  const { sampling } = settings.value;
  return (
    <fieldset>
      <legend>Sampling</legend>
      <p class="note">Blank is what the model recommends.</p>
      <div class="grid">
        {SAMPLING.map(({ field, label, step, min, max, hint }) => (
          <label>
            {label}
            <input
              type="number"
              inputMode="decimal"
              name={field}
              step={step}
              min={min}
              max={max}
              placeholder={hint}
              value={sampling[field] ?? ""}
              onInput={(event) => change({ sampling: { ...sampling, [field]: event.currentTarget.value } })}
            />
          </label>
        ))}
      </div>
    </fieldset>
  );
}

const EXAMPLE_TOOLS = `[{"type": "function", "function": {
  "name": "get_weather",
  "description": "Get the current weather in a city.",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
}}]`;

function Tools() {
  return (
    <div class="with-example">
      <label>
        Tools, as a JSON list
        <textarea
          rows={3}
          class="mono"
          spellcheck={false}
          value={settings.value.tools}
          onInput={(event) => change({ tools: event.currentTarget.value })}
        />
      </label>
      {settings.value.tools === "" && (
        <button type="button" class="quiet" onClick={() => change({ tools: EXAMPLE_TOOLS })}>
          Fill in an example
        </button>
      )}
    </div>
  );
}

function Page() {
  return (
    <div class="grid">
      <label>
        Theme
        <select
          value={settings.value.theme}
          onChange={(event) => change({ theme: event.currentTarget.value as Theme })}
        >
          <option value="system">As the system</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      {apiKey.value && (
        <button type="button" class="at-end" onClick={forgetKey}>
          Forget the API key
        </button>
      )}
    </div>
  );
}

function forgetKey(): void {
  apiKey.value = "";
  void greet();
}

/** Shown in place of the conversation while the server wants a key. */
export function KeyForm() {
  const wasWrong = apiKey.value !== "";
  const use = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    apiKey.value = String(form.get("key") ?? "").trim();
    void greet();
  };
  return (
    <form class="key" onSubmit={use}>
      <h2>This server asks for an API key</h2>
      <p class="note">It is kept for this tab alone, and sent to this server alone.</p>
      <label>
        API key
        <input
          name="key"
          type="password"
          required
          autocomplete="off"
          aria-invalid={wasWrong}
          aria-describedby={wasWrong ? "key-wrong" : undefined}
        />
      </label>
      {wasWrong && (
        <p id="key-wrong" class="failure" role="alert">
          The server does not know this key.
        </p>
      )}
      <button type="submit" disabled={!keyRefused.value}>
        Use this key
      </button>
    </form>
  );
}
