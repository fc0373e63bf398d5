// A reply of the model: its thought, text, tool calls, and how it went.
import type { Signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { busy, compare, giveResults, lastAnswer, regenerate } from "./conversation.js";
import type { Answer, ToolCall } from "./conversation.js";
import { focusMessage } from "./composer.js";
import { CopyButton } from "./copy_button.js";
import { duration, number, percent, plural } from "./format.js";
import { Markdown } from "./markdown.js";
import { EXPLANATIONS, LABELS, ORIGINS } from "./origins.js";
import { settings } from "./settings.js";

export function AnswerView({ reply }: { reply: Signal<Answer> }) {
  const answer = reply.value;
  const isLast = lastAnswer.value === reply;
  const streaming = answer.outcome === "streaming";
  const nothingYet = streaming && !answer.content && !answer.reasoning && answer.calls.length === 0;
  return (
    <article class="turn answer" aria-label="Reply" aria-busy={streaming}>
      {answer.reasoning && <Thought answer={answer} />}
      {nothingYet && <p class="waiting">Reading the prompt</p>}
      <Text answer={answer} />
      {answer.calls.map((call) => (
        <Call call={call} />
      ))}
      {answer.outcome === "failed" && (
        <p class="failure" role="alert">
          {answer.error}
        </p>
      )}
      {answer.outcome === "stopped" && <p class="note">Stopped.</p>}
      {answer.finishReason === "length" && <p class="note">Cut: the most tokens were reached.</p>}
      {isLast && !streaming && answer.finishReason === "tool_calls" && <Results calls={answer.calls} />}
      <Origins answer={answer} />
      <Figures answer={answer} />
      {answer.twin && <Comparison first={answer} second={answer.twin.value} />}
      {!streaming && <Actions reply={reply} isLast={isLast} />}
    </article>
  );
}

function Thought({ answer }: { answer: Answer }) {
  const thinking = answer.outcome === "streaming" && !answer.content;
  return (
    <details class="thought">
      <summary>{thinking ? "Thinking" : "Thought"}</summary>
      <div class="verbatim">{answer.reasoning}</div>
    </details>
  );
}

/** The text, read as Markdown no oftener than a tenth of the time allows, however long it is. */
function Text({ answer }: { answer: Answer }) {
  const [shown, setShown] = useState(answer);
  const pause = useRef({ until: 0, timer: 0 });
  const newest = useRef(answer);
  newest.current = answer;
  useEffect(() => {
    const wait = answer.outcome === "streaming" ? pause.current.until - performance.now() : 0;
    const show = () => {
      const begin = performance.now();
      pause.current.timer = 0;
      setShown(newest.current);
      requestAnimationFrame(() => {
        const now = performance.now();
        pause.current.until = now + 9 * (now - begin);
      });
    };
    if (wait <= 0) {
      clearTimeout(pause.current.timer);
      show();
    } else {
      pause.current.timer ||= setTimeout(show, wait) as unknown as number;
    }
  }, [answer]);
  useEffect(() => () => clearTimeout(pause.current.timer), []);
  if (!shown.content) {
    return null;
  }
  return <Markdown source={shown.content} spans={settings.value.tints ? shown.spans : undefined} />;
}

function Call({ call }: { call: ToolCall }) {
  return (
    <details class="call" open>
      <summary>
        Calls <code>{call.name}</code>
      </summary>
      <pre tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
        {pretty(call.arguments)}
      </pre>
    </details>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

/** Where a person answers for the tools. */
function Results({ calls }: { calls: ToolCall[] }) {
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void giveResults(calls.map((_, index) => String(form.get(`result-${index}`) ?? "")));
    focusMessage();
  };
  return (
    <form class="results" onSubmit={send}>
      {calls.map((call, index) => (
        <label>
          <span>
            Result of <code>{call.name}</code>
          </span>
          <input name={`result-${index}`} autocomplete="off" />
        </label>
      ))}
      <button type="submit" disabled={busy.value}>
        Send {calls.length > 1 ? "results" : "result"}
      </button>
    </form>
  );
}

/** The legend of the tints, with counts. */
function Origins({ answer }: { answer: Answer }) {
  const total = Object.values(answer.origins).reduce((sum, tokens) => sum + tokens, 0);
  if (!settings.value.tints || total === 0) {
    return null;
  }
  return (
    <ul class="legend" aria-label="Where the tokens came from">
      {ORIGINS.filter((origin) => answer.origins[origin]).map((origin) => (
        <li title={EXPLANATIONS[origin]}>
          <span class={`swatch ${origin}`} aria-hidden="true" />
          {LABELS[origin]} <b>{answer.origins[origin]}</b>
        </li>
      ))}
    </ul>
  );
}

/** What the server counted. */
function Figures({ answer: { statistics, usage, body } }: { answer: Answer }) {
  if (!statistics) {
    return null;
  }
  const speed = tokensPerSecond(statistics.decode_ms, usage?.completion_tokens);
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return (
    <dl class="figures">
      {speed !== undefined && <Figure name="Speed" value={`${number(speed)} tok/s`} />}
      <Figure name="Tokens a round" value={number(statistics.tokens_per_round)} />
      <Figure name="Drafts accepted" value={accepted(statistics)} />
      <Figure name="First token" value={duration(statistics.prompt_ms)} />
      {usage && <Figure name="Reply" value={plural(usage.completion_tokens, "token")} />}
      {usage && <Figure name="Prompt" value={`${usage.prompt_tokens}${cached ? `, ${cached} kept` : ""}`} />}
      <Figure name="Seed" value={String(body["seed"])} />
      {statistics.draft_off_reason && <Figure name="Drafts off" value={statistics.draft_off_reason} />}
    </dl>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function accepted({ draft_n, draft_n_accepted }: { draft_n: number; draft_n_accepted: number }): string {
  return draft_n === 0 ? "none made" : `${draft_n_accepted} of ${draft_n}, ${percent(draft_n_accepted / draft_n)}`;
}

/** Of the tokens after the first, which is part of reading the prompt. */
function tokensPerSecond(decodeMs: number, tokens: number | undefined): number | undefined {
  return tokens !== undefined && tokens > 1 && decodeMs > 0 ? ((tokens - 1) / decodeMs) * 1000 : undefined;
}

/** The promise, put to the test: the same request with and without drafts. */
function Comparison({ first, second }: { first: Answer; second: Answer }) {
  if (second.outcome === "streaming") {
    return (
      <p class="comparison">
        Asking again {setting(second)}: {plural(second.content.length, "character")}
      </p>
    );
  }
  if (second.outcome !== "whole") {
    return <p class="comparison differs">Not compared. {second.error ?? "Stopped."}</p>;
  }
  const [a, b] = [everything(first), everything(second)];
  const same = a === b;
  const speeds = [first, second].map(({ statistics, usage }) => {
    return tokensPerSecond(statistics?.decode_ms ?? 0, usage?.completion_tokens);
  });
  return (
    <p role="status" class={`comparison ${same ? "same" : "differs"}`}>
      <b>{same ? `Same text ${setting(second)}.` : `The text differs ${setting(second)}.`}</b>{" "}
      {same ? `${plural(a.length, "character")} compared.` : `From character ${firstDifference(a, b) + 1} on.`}{" "}
      {speeds.every((speed) => speed !== undefined) &&
        `${number(speeds[0]!)} tok/s ${setting(first)}, ${number(speeds[1]!)} tok/s ${setting(second)}.`}
    </p>
  );
}

function setting({ body }: Answer): string {
  return body["draft"] === false ? "without drafts" : "with drafts";
}

function everything({ reasoning, content, calls }: Answer): string {
  const told = calls.map((call) => `${call.name}(${call.arguments})`);
  return [reasoning, content, ...told].filter(Boolean).join("\n");
}

function firstDifference(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) {
    at += 1;
  }
  return at;
}

function Actions({ reply, isLast }: { reply: Signal<Answer>; isLast: boolean }) {
  const { content, outcome, body } = reply.value;
  const other = body["draft"] === false ? "with drafts" : "without drafts";
  const again = () => {
    void regenerate();
    focusMessage();
  };
  return (
    <div class="actions">
      {content && <CopyButton text={content} what="reply" />}
      {isLast && <Action name={outcome === "failed" ? "Try again" : "Regenerate"} act={again} />}
      {outcome === "whole" && <Action name={`Compare ${other}`} act={() => void compare(reply)} />}
    </div>
  );
}

/** Waits while a reply is running, and keeps the focus, which a button that is really disabled loses. */
function Action({ name, act }: { name: string; act: () => void }) {
  return (
    <button type="button" class="quiet" aria-disabled={busy.value} onClick={() => !busy.value && act()}>
      {name}
    </button>
  );
}
