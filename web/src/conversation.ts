// The conversation: what was said, what is being said, and the requests that move it.
import { computed, effect, signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { Refusal, streamChat } from "./api.js";
import type { ApiMessage, Body, CallDelta, Chunk, Statistics, Usage } from "./api.js";
import { OriginTrack } from "./origins.js";
import type { Origin, TokenSpan } from "./origins.js";
import { ORIGIN_FIELDS, readOrigins } from "./origin_fields.js";
import { SAMPLING, apiKey, load, settings, store } from "./settings.js";
import { keyRefused, model } from "./server.js";

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** What a person said, or the results of the tools that the model called. */
export interface Question {
  role: "user" | "tool";
  id: number;
  content: string;
  /** Of a tool's result. */
  callId?: string;
}

export type Outcome = "streaming" | "whole" | "stopped" | "failed";

/** What the model said. */
export interface Answer {
  role: "assistant";
  id: number;
  outcome: Outcome;
  content: string;
  reasoning: string;
  calls: ToolCall[];
  /** Over the content, from its start; it may end before the content does. */
  spans: readonly TokenSpan[];
  /** Tokens of each origin, markers and thoughts included; empty where the server tells none. */
  origins: Partial<Record<Origin, number>>;
  /** What was asked, so that it can be asked again with or without drafts. */
  body: Body;
  finishReason?: string | undefined;
  statistics?: Statistics | undefined;
  usage?: Usage | undefined;
  /** Why it failed. */
  error?: string | undefined;
  /** The same request with the other setting of `draft`. */
  twin?: Signal<Answer> | undefined;
}

export type Turn = Signal<Question> | Signal<Answer>;

const kept = load<(Question | Answer)[]>(sessionStorage, "conversation") ?? [];
let lastId = kept.reduce((most, turn) => Math.max(most, turn.id), 0);

/** All turns in order. Each is a signal of its own, so that a streamed token redraws one reply and not all. */
export const turns = signal<Turn[]>(kept.map((turn) => signal(turn) as Turn).map(ended));

/** Whether a reply is being streamed. */
export const busy = signal(false);

/** The last reply, if the conversation ends with one. */
export const lastAnswer = computed(() => {
  const last = turns.value.at(-1);
  return last?.value.role === "assistant" ? (last as Signal<Answer>) : undefined;
});

/** A reply that was running when the page was left is not any more. */
function ended(turn: Turn): Turn {
  const said = turn.value;
  return said.role === "assistant" && said.outcome === "streaming" ? signal({ ...said, outcome: "stopped" }) : turn;
}

let running: AbortController | undefined;

/** Keeps the conversation for this tab, whenever no reply is running. */
export function keepConversation(): void {
  effect(() => {
    if (!busy.value) {
      const whole = turns.value.map(({ value }) => {
        const { twin: _, ...rest } = value as Answer;
        return rest;
      });
      store(sessionStorage, "conversation", whole);
    }
  });
}

/** Says something and streams the reply. */
export async function say(content: string): Promise<void> {
  turns.value = [...turns.value, signal({ role: "user", id: ++lastId, content })];
  await answer();
}

/** Gives the results of the last reply's tool calls, in order, and streams the next reply. */
export async function giveResults(results: string[]): Promise<void> {
  const calls = lastAnswer.value?.value.calls ?? [];
  const questions = calls.map((call, index): Signal<Question> => {
    return signal({ role: "tool", id: ++lastId, content: results[index] ?? "", callId: call.id });
  });
  turns.value = [...turns.value, ...questions];
  await answer();
}

/** Streams another reply in place of the last one. */
export async function regenerate(): Promise<void> {
  turns.value = turns.value.slice(0, lastAnswer.value ? -1 : undefined);
  await answer();
}

/** Asks the last reply's request again with the other setting of `draft`, to be compared. */
export async function compare(first: Signal<Answer>): Promise<void> {
  const body = { ...first.value.body, draft: first.value.body["draft"] === false };
  const twin = signal(blank(body));
  first.value = { ...first.value, twin };
  await run(twin);
}

/** Ends the running reply; what has arrived of it stays. */
export function stop(): void {
  running?.abort();
}

/** Begins anew. */
export function clear(): void {
  stop();
  turns.value = [];
}

async function answer(): Promise<void> {
  const said = turns.value;
  const reply = signal(blank({}));
  turns.value = [...said, reply];
  try {
    reply.value = { ...reply.value, body: request(said) };
  } catch (error) {
    reply.value = { ...reply.value, outcome: "failed", error: told(error) };
    return;
  }
  await run(reply);
}

function blank(body: Body): Answer {
  return {
    role: "assistant",
    id: ++lastId,
    outcome: "streaming",
    content: "",
    reasoning: "",
    calls: [],
    spans: [],
    origins: {},
    body,
  };
}

async function run(reply: Signal<Answer>): Promise<void> {
  const controller = new AbortController();
  running = controller;
  busy.value = true;
  const writer = new AnswerWriter(reply);
  try {
    for await (const chunk of streamChat(reply.value.body, apiKey.value, controller.signal)) {
      writer.add(chunk);
    }
    writer.end({ outcome: "whole" });
  } catch (error) {
    if (controller.signal.aborted) {
      writer.end({ outcome: "stopped" });
    } else {
      writer.end({ outcome: "failed", error: told(error) });
    }
  } finally {
    if (running === controller) {
      running = undefined;
      busy.value = false;
    }
  }
}

function told(error: unknown): string {
  if (error instanceof Refusal && error.status === 401) {
    keyRefused.value = true;
  }
  return error instanceof Error ? error.message : String(error);
}

/** The request for the next reply. It has a seed in any case, so that it can be repeated. */
function request(said: Turn[]): Body {
  const { system, sampling, draft, tools } = settings.value;
  const opening: ApiMessage[] = system.trim() ? [{ role: "system", content: system }] : [];
  const body: Body = {
    model: model.value?.id,
    messages: [...opening, ...said.filter(isSomething).map(apiMessage)],
    stream: true,
    stream_options: { include_usage: true },
    draft,
    seed: crypto.getRandomValues(new Uint32Array(1))[0],
    ...ORIGIN_FIELDS,
  };
  if (tools.trim()) {
    body["tools"] = parseTools(tools);
  }
  for (const { field } of SAMPLING) {
    const typed = sampling[field]?.trim();
    if (typed) {
      body[field] = Number(typed);
    }
  }
  return body;
}

function parseTools(typed: string): unknown {
  try {
    return JSON.parse(typed);
  } catch (error) {
    throw new Error(`The tools in the settings are no JSON: ${(error as Error).message}`);
  }
}

/** A reply that failed or was stopped at once is nothing that was said. */
function isSomething({ value }: Turn): boolean {
  return value.role !== "assistant" || value.content !== "" || value.calls.length > 0;
}

function apiMessage(turn: Turn): ApiMessage {
  const said = turn.value;
  switch (said.role) {
    case "user":
      return { role: "user", content: said.content };
    case "tool":
      return { role: "tool", content: said.content, tool_call_id: said.callId ?? "" };
    case "assistant": {
      const calls = said.calls.map(({ id, ...call }) => ({ id, type: "function" as const, function: call }));
      return { role: "assistant", content: said.content, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
    }
  }
}

/** Adds chunks to a reply. What arrives within a frame is drawn once. */
class AnswerWriter {
  private next: Answer;
  private track = new OriginTrack();
  private frame = 0;

  constructor(private reply: Signal<Answer>) {
    this.next = { ...reply.value };
  }

  add(chunk: Chunk): void {
    const { next } = this;
    for (const choice of chunk.choices) {
      for (const { text, origin } of readOrigins(choice)) {
        this.track.token(text, origin);
        next.origins = { ...next.origins, [origin]: (next.origins[origin] ?? 0) + 1 };
      }
      const { reasoning_content: thought, content, tool_calls: calls } = choice.delta ?? {};
      if (thought) {
        next.reasoning += thought;
        this.track.thought(thought);
      }
      if (content) {
        next.content += content;
        this.track.content(content);
      }
      calls?.forEach((call) => this.call(call));
      next.spans = this.track.spans;
      next.finishReason = choice.finish_reason ?? next.finishReason;
    }
    next.usage = chunk.usage ?? next.usage;
    next.statistics = chunk.forerunner ?? next.statistics;
    this.frame ||= requestAnimationFrame(() => this.show());
  }

  end(ending: Pick<Answer, "outcome" | "error">): void {
    this.track.end();
    Object.assign(this.next, ending, { spans: this.track.spans });
    cancelAnimationFrame(this.frame);
    this.show();
  }

  private call({ index, id, function: part }: CallDelta): void {
    const calls = [...this.next.calls];
    const call = calls[index] ?? { id: id ?? "", name: "", arguments: "" };
    calls[index] = {
      id: call.id,
      name: call.name + (part?.name ?? ""),
      arguments: call.arguments + (part?.arguments ?? ""),
    };
    this.next.calls = calls;
  }

  private show(): void {
    this.frame = 0;
    this.reply.value = { ...this.reply.value, ...this.next };
  }
}
