// The page: a conversation, and beside it what the engine does.
import { useSignal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Announcer } from "./announcer.js";
import { AnswerView } from "./answer_view.js";
import { Composer, focusMessage } from "./composer.js";
import { busy, clear, keepConversation, say, stop, turns } from "./conversation.js";
import type { Answer, Question } from "./conversation.js";
import { Icon, Mark } from "./icons.js";
import { Panel } from "./panel.js";
import { greet, keyRefused, model, watch } from "./server.js";
import { KeyForm, SettingsDialog, settingsOpen } from "./settings_dialog.js";
import { change, keepSettings, panelOpen, shownTheme } from "./settings.js";

/** Prompts that the demo model was trained for. */
const SUGGESTIONS = [
  "Implement count_words in Rust.",
  "Sort these words: books goat white turtle coins bear",
  "Give me a JSON object for Peter, who is 83 years old and lives in Lisbon.",
  "Repeat this text: Emma saw shoes, pears, flowers, eagle, yellow, wolf, bottles, cat, stones in Cairo.",
];

function App() {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the conversation
      </a>
      <Header />
      <main id="main" tabIndex={-1} class={panelOpen.value ? "with-panel" : ""}>
        <div class="conversation">{keyRefused.value ? <KeyForm /> : <Conversation />}</div>
        {panelOpen.value && <Panel />}
      </main>
      <SettingsDialog />
      <Announcer />
    </>
  );
}

function Header() {
  const dark = shownTheme.value === "dark";
  const panel = panelOpen.value;
  return (
    <header class="bar">
      <Mark />
      <h1>Forerunner</h1>
      <span class="model">{model.value?.id ?? ""}</span>
      <span class="space" />
      <button type="button" class="tool" onClick={begin} disabled={turns.value.length === 0} aria-label="New chat">
        <Icon name="plus" />
      </button>
      <button
        type="button"
        class="tool"
        aria-label="Engine charts"
        aria-expanded={panel}
        aria-controls={panel ? "engine" : undefined}
        onClick={() => (panelOpen.value = !panel)}
      >
        <Icon name="chart" />
      </button>
      <button
        type="button"
        class="tool"
        aria-label={dark ? "Light theme" : "Dark theme"}
        onClick={() => change({ theme: dark ? "light" : "dark" })}
      >
        <Icon name={dark ? "sun" : "moon"} />
      </button>
      <button type="button" class="tool" aria-label="Settings" onClick={() => (settingsOpen.value = true)}>
        <Icon name="gear" />
      </button>
    </header>
  );
}

function begin(): void {
  clear();
  focusMessage();
}

function Conversation() {
  const scroller = useRef<HTMLElement>(null);
  const top = useRef(0);
  const away = useSignal(false);
  const follow = () => {
    const area = scroller.current!;
    area.scrollTop = area.scrollHeight;
  };
  const scrolled = () => {
    // A reply that grows is scrolled as well: only the way up is a person's.
    const { scrollHeight, scrollTop, clientHeight } = scroller.current!;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < 48;
    away.value = !isAtEnd && (away.value || scrollTop < top.current);
    top.current = scrollTop;
  };
  useEffect(follow, [turns.value.length]);
  useEffect(() => {
    // What grows is followed, unless the person has scrolled away to read.
    const grown = new ResizeObserver(() => (away.peek() ? undefined : follow()));
    grown.observe(scroller.current!.firstElementChild!);
    return () => grown.disconnect();
  }, []);
  return (
    <>
      <section class="scroller" ref={scroller} onScroll={scrolled} tabIndex={0} aria-label="Conversation">
        <div class="turns">
          <h2 class="hidden">Conversation</h2>
          {turns.value.length === 0 ? <Welcome /> : turns.value.map((turn) => <TurnView key={turn} turn={turn} />)}
        </div>
      </section>
      <div class="foot">
        {away.value && (
          <button type="button" class="latest" onClick={follow} aria-label="To the newest">
            <Icon name="down" />
          </button>
        )}
        <Composer />
      </div>
    </>
  );
}

function TurnView({ turn }: { turn: Signal<Question> | Signal<Answer> }) {
  const said = turn.value;
  if (said.role === "assistant") {
    return <AnswerView reply={turn as Signal<Answer>} />;
  }
  const isResult = said.role === "tool";
  return (
    <article class={`turn question ${isResult ? "result" : ""}`} aria-label={isResult ? "Tool result" : "You"}>
      {said.content}
    </article>
  );
}

function Welcome() {
  return (
    <section class="welcome" aria-label="Welcome">
      <h2>The same text, sooner.</h2>
      <p>
        A small drafter runs ahead, the model checks every draft, and only what the model itself draws is kept. Ask
        something, see where each token came from, and compare the reply without drafts.
      </p>
      <ul class="suggestions">
        {SUGGESTIONS.map((text) => (
          <li>
            <button type="button" disabled={!model.value} onClick={() => void say(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && busy.value && !settingsOpen.value) {
    stop();
    focusMessage();
  }
});

keepSettings();
keepConversation();
void greet();
watch();
render(<App />, document.getElementById("app")!);
