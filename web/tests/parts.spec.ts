// The parts that need no browser.
import { expect, test } from "@playwright/test";
import { parseMetrics, positions, roundKinds, sample } from "../src/metrics.js";
import { readOrigins } from "../src/origin_fields.js";
import { OriginTrack, TokenMap } from "../src/origins.js";
import { EventReader } from "../src/sse.js";

test("events are the same however the bytes are cut", () => {
  const bytes = new TextEncoder().encode(': comment\n\ndata: {"a": "é€🙂"}\n\ndata: one\r\ndata: two\r\n\r\nevent: x\n\ndata:[DONE]\n\n');
  const whole = new EventReader().push(bytes);
  expect(whole).toEqual(['{"a": "é€🙂"}', "one\ntwo", "[DONE]"]);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const reader = new EventReader();
    expect([...reader.push(bytes.slice(0, cut)), ...reader.push(bytes.slice(cut))]).toEqual(whole);
  }
  const single = new EventReader();
  expect([...bytes].flatMap((byte) => single.push(Uint8Array.of(byte)))).toEqual(whole);
});

test("tokens are laid over the text that is shown, whichever comes first", () => {
  const track = new OriginTrack();
  track.token("<think>", "plain");
  track.token("Hm", "draft");
  track.token("</think>", "bonus");
  track.thought("Hm");
  expect(track.spans).toEqual([]);
  track.token("12", "draft");
  track.token(" apples", "bonus");
  track.content("12 ap");
  track.content("ples and");
  expect(track.spans).toEqual([
    { text: "12", origin: "draft" },
    { text: " ap", origin: "bonus" },
  ]);
  track.token(" and", "copy");
  track.token("", "plain");
  track.content("");
  expect(track.spans.slice(2)).toEqual([
    { text: "ples", origin: "bonus" },
    { text: " and", origin: "copy" },
  ]);
});

test("tokens that never show and text without tokens do not hold up the rest", () => {
  const track = new OriginTrack();
  for (let token = 0; token < 2000; token += 1) {
    track.token("never", "plain");
  }
  track.content("unheard");
  track.token("shown", "bonus");
  track.content("shown");
  expect(track.spans).toEqual([
    { text: "unheard", origin: undefined },
    { text: "shown", origin: "bonus" },
  ]);
  track.content("lost");
  track.token(" kept", "draft");
  track.content(" kept");
  track.end();
  expect(track.spans.slice(2)).toEqual([
    { text: "lost", origin: undefined },
    { text: " kept", origin: "draft" },
  ]);
});

test("origins that the page does not know are plain, and a server may tell none", () => {
  const told = [{ text: "a", origin: "draft" }, { text: "b", origin: "new" }, { origin: 1 }, null];
  expect(readOrigins({ token_origins: told })).toEqual([
    { text: "a", origin: "draft" },
    { text: "b", origin: "plain" },
    { text: "", origin: "plain" },
    { text: "", origin: "plain" },
  ]);
  expect(readOrigins({ token_origins: "none" })).toEqual([]);
  expect(readOrigins({})).toEqual([]);
});

test("a character's token is found", () => {
  const map = new TokenMap([
    { text: "ab", origin: "plain" },
    { text: "", origin: "bonus" },
    { text: "c", origin: "copy" },
  ]);
  expect([0, 1, 2, 3].map((at) => map.at(at))).toEqual([0, 0, 2, -1]);
});

const PAGE = (tokens: number, drafted: number, accepted: number) => `# HELP x A thing.
# TYPE x counter
vllm:generation_tokens_total{model_name="a \\"b\\""} ${tokens}
vllm:num_requests_running{model_name="m"} 2
vllm:kv_cache_usage_perc{model_name="m"} 0.25
forerunner:rounds_total{model_name="m",kind="plain"} 4
forerunner:rounds_total{model_name="m",kind="drafted"} ${drafted}
forerunner:rounds_total{model_name="m",kind="prompt"} 3
forerunner:verified_drafts_by_position_total{model_name="m",position="0"} ${drafted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="0"} ${accepted}
not a sample
`;

test("rates are what two readings differ by", () => {
  const [before, now] = [parseMetrics(PAGE(10, 5, 4)), parseMetrics(PAGE(70, 25, 14))];
  expect(sample(before, now, 9, 2)).toEqual({
    time: 9,
    tokensPerSecond: 30,
    tokensPerRound: 3,
    running: 2,
    waiting: 0,
    pageUse: 0.25,
  });
  expect(positions(before, now)).toEqual([{ verified: 20, accepted: 10 }]);
  expect(positions(undefined, now)).toEqual([{ verified: 25, accepted: 14 }]);
  expect(roundKinds(before, now)).toEqual([
    ["plain", 0],
    ["drafted", 20],
    ["prompt", 0],
  ]);
  expect(sample(now, now, 9, 1).tokensPerRound).toBeNull();
});

test("a server that was started again counts from nothing", () => {
  const [before, now] = [parseMetrics(PAGE(100, 50, 40)), parseMetrics(PAGE(6, 3, 2))];
  expect(sample(before, now, 9, 1).tokensPerSecond).toBe(6);
});
