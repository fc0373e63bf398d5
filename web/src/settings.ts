// What a person sets, and where it is kept: the browser's storage, and never the server.
import { computed, effect, signal } from "@preact/signals";

/** Sampling fields that are sent when they are not blank. */
export const SAMPLING = [
  { field: "temperature", label: "Temperature", step: "0.1", min: 0, max: 5, hint: "0 is greedy" },
  { field: "top_p", label: "Top-p", step: "0.05", min: 0, max: 1, hint: "1 is off" },
  { field: "top_k", label: "Top-k", step: "1", min: -1, max: 1e6, hint: "0 is off" },
  { field: "min_p", label: "Min-p", step: "0.05", min: 0, max: 1, hint: "0 is off" },
  { field: "repetition_penalty", label: "Repetition penalty", step: "0.05", min: 0, max: 10, hint: "1 is off" },
  { field: "max_tokens", label: "Most tokens", step: "1", min: 1, max: 1e9, hint: "to the context's end" },
  { field: "seed", label: "Seed", step: "1", min: 0, max: Number.MAX_SAFE_INTEGER, hint: "new each time" },
] as const;

export type SamplingField = (typeof SAMPLING)[number]["field"];
export type Theme = "system" | "light" | "dark";

export interface Settings {
  system: string;
  /** As typed; blank is the server's default. */
  sampling: Partial<Record<SamplingField, string>>;
  /** A JSON list, as typed. */
  tools: string;
  draft: boolean;
  tints: boolean;
  theme: Theme;
}

const DEFAULTS: Settings = {
  system: "",
  sampling: {},
  tools: "",
  draft: true,
  tints: true,
  theme: "system",
};

export const settings = signal<Settings>({ ...DEFAULTS, ...load<Partial<Settings>>(localStorage, "settings") });

/** Whether the charts are shown: at first where they have a place beside the conversation. */
export const panelOpen = signal(matchMedia("(min-width: 1000px)").matches);

/** Kept for this tab alone. */
export const apiKey = signal(load<string>(sessionStorage, "api-key") ?? "");

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(darkSystem.matches);
darkSystem.addEventListener("change", (event) => (systemIsDark.value = event.matches));

/** Which of the two is shown. */
export const shownTheme = computed<"light" | "dark">(() => {
  const theme = settings.value.theme;
  return theme === "system" ? (systemIsDark.value ? "dark" : "light") : theme;
});

/** Changes some settings. */
export function change(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes };
}

/** Sampling, system prompt and tools as they were at first. */
export function reset(): void {
  change({ system: DEFAULTS.system, sampling: DEFAULTS.sampling, tools: DEFAULTS.tools });
}

/** Reads what was stored, if it is still there and whole. */
export function load<T>(storage: Storage, name: string): T | undefined {
  try {
    const text = storage.getItem(`forerunner-${name}`);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

/** Stores a value. Storage can be full or forbidden; the page works without. */
export function store(storage: Storage, name: string, value: unknown): void {
  try {
    storage.setItem(`forerunner-${name}`, JSON.stringify(value));
  } catch {
    // Nothing to do: it is not kept.
  }
}

/** Keeps settings stored and the document themed from now on. */
export function keepSettings(): void {
  effect(() => store(localStorage, "settings", settings.value));
  effect(() => store(sessionStorage, "api-key", apiKey.value));
  effect(() => {
    document.documentElement.dataset["theme"] = shownTheme.value;
  });
}
