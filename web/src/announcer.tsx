// Tells a screen reader what is streamed: whole sentences, and not every token.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";
import { lastAnswer } from "./conversation.js";

export function Announcer() {
  const said = useSignal("");
  const progress = useRef({ id: 0, characters: 0, outcome: "" });
  useSignalEffect(() => {
    const answer = lastAnswer.value?.value;
    if (!answer) {
      return;
    }
    const { current } = progress;
    if (answer.id !== current.id) {
      // A reply that was there when the page was opened is not news.
      progress.current = { id: answer.id, characters: 0, outcome: answer.outcome };
      if (answer.outcome !== "streaming") {
        progress.current.characters = answer.content.length;
      }
      return;
    }
    const whole = answer.outcome !== "streaming";
    const rest = answer.content.slice(current.characters);
    const end = whole ? rest.length : lastSentence(rest);
    const ending = whole && current.outcome === "streaming" ? ENDINGS[answer.outcome] : "";
    current.outcome = answer.outcome;
    current.characters += end;
    if (end > 0 || ending) {
      said.value = `${rest.slice(0, end)} ${ending}`.trim();
    }
  });
  return (
    <div class="hidden" role="status" aria-live="polite" aria-label="Reply">
      {said.value}
    </div>
  );
}

const ENDINGS: Record<string, string> = { whole: "End of reply.", stopped: "Stopped.", failed: "The reply failed." };

/** Up to the end of the last whole sentence or line. */
function lastSentence(text: string): number {
  const ends = [...text.matchAll(/[.!?:]\s|\n/g)];
  const last = ends.at(-1);
  return last ? last.index + last[0].length : 0;
}
