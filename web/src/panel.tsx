// What the engine is doing, from the server's own counters.
import { Chart } from "./chart.js";
import { count, number, percent, plural } from "./format.js";
import { positions, roundKinds } from "./metrics.js";
import type { Position } from "./metrics.js";
import { lanes, newest, oldest, reachable, samples, version } from "./server.js";

export function Panel() {
  const all = samples.value;
  const times = all.map((sample) => sample.time);
  const last = all.at(-1);
  return (
    <section class="panel" id="engine" aria-label="Engine" tabIndex={0}>
      <h2>Engine</h2>
      <About />
      <Chart
        title="Tokens a second"
        now={last ? number(last.tokensPerSecond) : "–"}
        times={times}
        lines={[{ name: "tok/s", colour: "accent", values: all.map((sample) => sample.tokensPerSecond) }]}
        least={10}
        format={(value) => count(Math.round(value))}
      />
      <Chart
        title="Tokens a round"
        now={last?.tokensPerRound ? number(last.tokensPerRound) : "–"}
        times={times}
        lines={[{ name: "tokens a round", colour: "bonus-mark", values: all.map((sample) => sample.tokensPerRound) }]}
        least={2}
        format={(value) => value.toFixed(1)}
      />
      <Acceptance />
      <Rounds />
      <Chart
        title="Replies"
        now={load(last?.running ?? 0, last?.waiting ?? 0)}
        times={times}
        lines={[
          { name: "running", colour: "accent", values: all.map((sample) => sample.running) },
          { name: "waiting", colour: "danger", values: all.map((sample) => sample.waiting) },
        ]}
        least={2}
        format={(value) => value.toFixed(0)}
      />
      <Chart
        title="Pages in use"
        now={percent(last?.pageUse ?? 0)}
        times={times}
        lines={[{ name: "pages", colour: "copy-mark", values: all.map((sample) => sample.pageUse) }]}
        least={0.1}
        format={percent}
      />
    </section>
  );
}

function load(running: number, waiting: number): string {
  return `${running}${lanes.value ? ` of ${lanes.value}` : ""} running${waiting ? `, ${waiting} waiting` : ""}`;
}

function About() {
  const shown = version.value;
  if (!reachable.value) {
    return (
      <p class="failure" role="alert">
        The server cannot be reached. Trying again.
      </p>
    );
  }
  return shown ? (
    <p class="about">
      {shown.device}, {shown.drafter ? `drafted by ${shown.drafter}` : "no drafter"}
    </p>
  ) : null;
}

/** Of the last two minutes, or of all time when these had no drafts. */
function Acceptance() {
  const now = newest.value;
  if (!now) {
    return null;
  }
  const recent = positions(oldest.value, now);
  const all = positions(undefined, now);
  const isRecent = recent.some((position) => position.verified > 0);
  const shown = isRecent ? recent : all;
  return (
    <section class="bars" aria-label="Acceptance by position">
      <h3>
        <span>Acceptance by position, %</span>
        <small>{isRecent ? "last 2 min" : "since start"}</small>
      </h3>
      {shown.length === 0 ? <p class="note">No drafts yet.</p> : <Columns positions={shown} />}
    </section>
  );
}

function Columns({ positions: shown }: { positions: Position[] }) {
  return (
    <ol class="columns">
      {shown.map(({ verified, accepted }, index) => {
        const share = verified > 0 ? accepted / verified : 0;
        return (
          <li title={`${count(accepted)} of ${count(verified)} accepted`}>
            <span class="column" aria-hidden="true">
              <span style={{ height: `${Math.round(share * 100)}%` }} />
            </span>
            <b>{verified > 0 ? Math.round(share * 100) : "–"}</b>
            <span class="hidden">% accepted at position</span>
            <small>{index + 1}</small>
          </li>
        );
      })}
    </ol>
  );
}

const KIND_COLOURS: Record<string, string> = { plain: "plain", drafted: "draft", copy: "copy", prompt: "bonus" };

function Rounds() {
  const now = newest.value;
  if (!now) {
    return null;
  }
  const recent = roundKinds(oldest.value, now);
  const isRecent = recent.some(([, rounds]) => rounds > 0);
  const kinds = isRecent ? recent : roundKinds(undefined, now);
  const total = kinds.reduce((sum, [, rounds]) => sum + rounds, 0);
  return (
    <section class="bars" aria-label="Rounds by kind">
      <h3>
        <span>Rounds by kind</span>
        <small>{isRecent ? "last 2 min" : "since start"}</small>
      </h3>
      <div class="stack" aria-hidden="true">
        {kinds.map(([kind, rounds]) => (
          <span class={`swatch ${KIND_COLOURS[kind] ?? "plain"}`} style={{ flexGrow: total > 0 ? rounds : 0 }} />
        ))}
      </div>
      <ul class="legend">
        {kinds.map(([kind, rounds]) => (
          <li title={plural(rounds, "round")}>
            <span class={`swatch ${KIND_COLOURS[kind] ?? "plain"}`} aria-hidden="true" />
            {kind} <b>{count(rounds)}</b>
          </li>
        ))}
      </ul>
    </section>
  );
}
