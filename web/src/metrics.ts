// Reads the server's Prometheus page and works out rates between two readings.

/** A reading of `/metrics`, by name and labels as they are written. */
export type Reading = ReadonlyMap<string, number>;

/** What the charts show of one interval between two readings. */
export interface Sample {
  /** Seconds since the epoch. */
  time: number;
  tokensPerSecond: number;
  /** Null when no round moved a reply. */
  tokensPerRound: number | null;
  running: number;
  waiting: number;
  /** 0 to 1. */
  pageUse: number;
}

/** Drafts at one position of a window. */
export interface Position {
  verified: number;
  accepted: number;
}

/** Reads the text format. A line that is none is skipped. */
export function parseMetrics(text: string): Reading {
  const reading = new Map<string, number>();
  for (const line of text.split("\n")) {
    const match = /^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
    if (match) {
      const [, name, labels, value] = match;
      reading.set(`${name}${withoutModel(labels ?? "")}`, Number(value));
    }
  }
  return reading;
}

/** One server has one model; what is left tells the samples of a family apart. */
function withoutModel(labels: string): string {
  return labels.replace(/model_name="(?:[^"\\]|\\.)*",?/, "").replace(",}", "}").replace("{}", "");
}

const GENERATED = "vllm:generation_tokens_total";
const ROUNDS = /^forerunner:rounds_total\{kind="(\w+)"\}$/;

/** The interval between two readings, `seconds` apart. */
export function sample(before: Reading, now: Reading, time: number, seconds: number): Sample {
  const grown = (name: string) => growth(before, now, name);
  const moving = [...now.keys()].filter((name) => ROUNDS.test(name) && !name.includes('"prompt"'));
  const rounds = moving.reduce((sum, name) => sum + grown(name), 0);
  return {
    time,
    tokensPerSecond: grown(GENERATED) / Math.max(seconds, 1e-3),
    tokensPerRound: rounds > 0 ? grown(GENERATED) / rounds : null,
    running: now.get("vllm:num_requests_running") ?? 0,
    waiting: now.get("vllm:num_requests_waiting") ?? 0,
    pageUse: now.get("vllm:kv_cache_usage_perc") ?? 0,
  };
}

/** Drafts by position between two readings; the first position first. */
export function positions(before: Reading | undefined, now: Reading): Position[] {
  const found: Position[] = [];
  for (let position = 0; ; position += 1) {
    const label = `{position="${position}"}`;
    const verified = `forerunner:verified_drafts_by_position_total${label}`;
    if (!now.has(verified)) {
      return found;
    }
    const accepted = `vllm:spec_decode_num_accepted_tokens_per_pos_total${label}`;
    found.push({ verified: growth(before, now, verified), accepted: growth(before, now, accepted) });
  }
}

/** Rounds of each kind between two readings, in the server's order. */
export function roundKinds(before: Reading | undefined, now: Reading): [string, number][] {
  return [...now.keys()].flatMap((name) => {
    const kind = ROUNDS.exec(name)?.[1];
    return kind ? [[kind, growth(before, now, name)] as [string, number]] : [];
  });
}

/** A counter that went back belongs to a server that was started again: all of it is new. */
function growth(before: Reading | undefined, now: Reading, name: string): number {
  const value = now.get(name) ?? 0;
  const earlier = before?.get(name) ?? 0;
  return value >= earlier ? value - earlier : value;
}
