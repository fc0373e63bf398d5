// What the page knows of the server: its model, whether it wants a key, and how it is doing.
import { computed, signal } from "@preact/signals";
import { Refusal, getJson, getText } from "./api.js";
import { parseMetrics, sample } from "./metrics.js";
import type { Reading, Sample } from "./metrics.js";
import { apiKey } from "./settings.js";

export interface Model {
  id: string;
  max_model_len?: number;
}

export interface Version {
  version: string;
  model: string;
  drafter: string | null;
  device: string;
}

/** How many intervals the charts show: two minutes. */
const MOST_SAMPLES = 120;

const POLL_MS = 1000;

export const model = signal<Model | undefined>(undefined);
export const version = signal<Version | undefined>(undefined);

/** The server wants a key, and has not got one that it knows. */
export const keyRefused = signal(false);

/** False while the server cannot be reached. */
export const reachable = signal(true);

/** Replies that can run at once, as `/v1/loads` says. */
export const lanes = signal<number | undefined>(undefined);

interface Timed {
  time: number;
  reading: Reading;
}

const readings = signal<Timed[]>([]);

/** The newest reading, and the one that the charts begin with. */
export const newest = computed(() => readings.value.at(-1)?.reading);
export const oldest = computed(() => readings.value[0]?.reading);

/** One for each interval, the oldest first. */
export const samples = computed<Sample[]>(() => {
  const all = readings.value;
  return all.slice(1).map(({ time, reading }, index) => {
    const before = all[index]!;
    return sample(before.reading, reading, time, time - before.time);
  });
});

/** Asks what is served; tells by `keyRefused` whether the key is the trouble. */
export async function greet(): Promise<void> {
  try {
    version.value = await getJson<Version>("/version", "");
    const list = await getJson<{ data: Model[] }>("/v1/models", apiKey.value);
    model.value = list.data[0];
    keyRefused.value = false;
    reachable.value = true;
  } catch (error) {
    const status = error instanceof Refusal ? error.status : 0;
    keyRefused.value = status === 401;
    reachable.value = status !== 0;
  }
}

/** Reads the server's counters once a second, while the page can be seen. */
export function watch(): void {
  let beat = 0;
  const turn = async () => {
    if (!document.hidden) {
      await poll(beat++);
    }
    setTimeout(turn, POLL_MS);
  };
  void turn();
}

async function poll(beat: number): Promise<void> {
  try {
    const reading = parseMetrics(await getText("/metrics", ""));
    const time = Date.now() / 1000;
    readings.value = [...readings.value, { time, reading }].slice(-(MOST_SAMPLES + 1));
    if (!reachable.value || (!model.value && !keyRefused.value)) {
      await greet();
    }
    if (model.value && !keyRefused.value && beat % 5 === 0) {
      await readLoads();
    }
  } catch (error) {
    reachable.value = error instanceof Refusal && error.status !== 0;
  }
}

async function readLoads(): Promise<void> {
  const answer = await getJson<{ loads: { max_running_requests?: number }[] }>("/v1/loads", apiKey.value);
  lanes.value = answer.loads[0]?.max_running_requests;
}
