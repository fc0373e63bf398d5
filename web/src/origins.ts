// Where each token of a reply came from, laid over the text that is shown.

/** In the order of the legend. */
export const ORIGINS = ["draft", "bonus", "copy", "forced", "plain"] as const;

/** How a token came to be: see `LABELS`. */
export type Origin = (typeof ORIGINS)[number];

/** What the page says of an origin. */
export const LABELS: Record<Origin, string> = {
  draft: "draft accepted",
  bonus: "bonus",
  copy: "copied",
  forced: "forced",
  plain: "plain",
};

/** One sentence about an origin. */
export const EXPLANATIONS: Record<Origin, string> = {
  draft: "The drafter guessed this token and the model agreed.",
  bonus: "The model's own token at the end of a drafted round.",
  copy: "Proposed from earlier text and accepted by the model.",
  forced: "The only token that the grammar allows here.",
  plain: "Drawn one at a time, without drafts.",
};

/** A piece of shown text that is one token, or a part of one. */
export interface TokenSpan {
  text: string;
  /** Undefined where the server tells no origins. */
  origin: Origin | undefined;
}

/** Most characters of tokens that wait for a shown piece: more than one chunk is ahead of another. */
const MOST_WAITING = 256;

/**
 * Lays tokens over text. Both arrive in order, and either may be a chunk ahead of the other. Markers of thoughts and tool
 * calls are tokens that are never shown, so each shown piece is looked for in what the tokens say, from where the last
 * one ended.
 */
export class OriginTrack {
  /** Over the content, from its start. It may end before the content does. */
  spans: readonly TokenSpan[] = [];
  private tokens: TokenSpan[] = [];
  private pieces: { text: string; isContent: boolean }[] = [];

  /** A token has been told. */
  token(text: string, origin: Origin): void {
    this.tokens.push({ text, origin });
    this.settle();
  }

  /** A piece of the content is shown. */
  content(text: string): void {
    this.pieces.push({ text, isContent: true });
    this.settle();
  }

  /** A piece of a thought is shown, which is not tinted. */
  thought(text: string): void {
    this.pieces.push({ text, isContent: false });
    this.settle();
  }

  /** Nothing more is told. */
  end(): void {
    this.settle(-1);
  }

  /** Lays down what can be. A piece that is still not found when many characters wait is left untinted. */
  private settle(most = MOST_WAITING): void {
    for (let piece = this.pieces[0]; piece; piece = this.pieces[0]) {
      const waiting = this.tokens.map((token) => token.text).join("");
      const start = waiting.indexOf(piece.text);
      if (start < 0 && waiting.length <= most) {
        return;
      }
      this.pieces.shift();
      if (start >= 0) {
        this.take(start);
      }
      const found = start < 0 ? [{ text: piece.text, origin: undefined }] : this.take(piece.text.length);
      if (piece.isContent) {
        this.spans = [...this.spans, ...found];
      }
    }
  }

  /** Takes so many characters off the waiting tokens. */
  private take(characters: number): TokenSpan[] {
    const taken: TokenSpan[] = [];
    for (let left = characters; left > 0; ) {
      const first = this.tokens[0]!;
      const part = first.text.slice(0, left);
      left -= part.length;
      if (part !== "") {
        taken.push({ text: part, origin: first.origin });
      }
      if (part.length < first.text.length) {
        this.tokens[0] = { ...first, text: first.text.slice(part.length) };
      } else {
        this.tokens.shift();
      }
    }
    return taken;
  }
}

/** Token borders of a whole text, for looking up which token a character belongs to. */
export class TokenMap {
  private ends: number[] = [];

  constructor(private spans: readonly TokenSpan[]) {
    let end = 0;
    for (const span of spans) {
      this.ends.push((end += span.text.length));
    }
  }

  /** The index of the token at this character, or -1. */
  at(character: number): number {
    let low = 0;
    let high = this.ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.ends[middle] ?? 0) <= character) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < this.ends.length ? low : -1;
  }

  /** The origin of the token with this index. */
  origin(token: number): Origin | undefined {
    return this.spans[token]?.origin;
  }
}
