// Asks the server. Every address is on the server that the page came from.
import { EventReader } from "./sse.js";

/** What a request says, in the API's words. */
export type Body = Record<string, unknown>;

/** A message as the API takes it. */
export interface ApiMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string | null;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** What a chunk adds to a tool call. */
export interface CallDelta {
  index: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

/** How a reply went, as the server counts it. */
export interface Statistics {
  draft_n: number;
  draft_n_accepted: number;
  draft_rounds: number;
  rounds: number;
  tokens_per_round: number;
  draft_off_reason: string | null;
  prompt_ms: number;
  decode_ms: number;
}

/** Tokens of a request. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
}

/** A chunk of a streamed reply. */
export interface Chunk {
  choices: {
    delta?: { content?: string | null; reasoning_content?: string | null; tool_calls?: CallDelta[] };
    finish_reason?: string | null;
    token_origins?: unknown;
  }[];
  usage?: Usage | null;
  forerunner?: Statistics;
  error?: { message: string };
}

/** A refusal, in the server's words. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Gets JSON, or throws a `Refusal`. */
export async function getJson<T>(path: string, key: string): Promise<T> {
  const response = await ask(path, { headers: authorization(key) });
  return (await response.json()) as T;
}

/** Gets text, or throws a `Refusal`. */
export async function getText(path: string, key: string): Promise<string> {
  return (await ask(path, { headers: authorization(key) })).text();
}

/** Streams a chat reply. Ends when the server says so, throws when it stops without, and when `signal` is aborted. */
export async function* streamChat(body: Body, key: string, signal: AbortSignal): AsyncGenerator<Chunk> {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", ...authorization(key) },
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body?.getReader();
  const events = new EventReader();
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) {
      throw new Refusal(0, "The connection ended in the middle of the reply.");
    }
    for (const data of events.push(value)) {
      if (data === "[DONE]") {
        return;
      }
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.error) {
        throw new Refusal(500, chunk.error.message);
      }
      yield chunk;
    }
  }
}

function authorization(key: string): Record<string, string> {
  return key ? { authorization: `Bearer ${key}` } : {};
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (init.signal?.aborted) {
      throw error;
    }
    throw new Refusal(0, "The server cannot be reached.");
  }
  if (!response.ok) {
    throw new Refusal(response.status, await reason(response));
  }
  return response;
}

async function reason(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: { message?: string } };
    return body.error?.message ?? `The server answered ${response.status}.`;
  } catch {
    return `The server answered ${response.status}.`;
  }
}
