// The character references that occur in what models write. Others are shown as they are written.
//
// It stands in for the parser's own table of all two thousand, which would be a fifth of the page's script.

const CHARACTERS: Record<string, string> = {
  amp: "&",
  apos: "'",
  bull: "•",
  cent: "¢",
  copy: "©",
  deg: "°",
  euro: "€",
  ge: "≥",
  gt: ">",
  hellip: "…",
  laquo: "«",
  larr: "←",
  ldquo: "“",
  le: "≤",
  lsquo: "‘",
  lt: "<",
  mdash: "—",
  middot: "·",
  minus: "−",
  nbsp: "\u00a0",
  ndash: "–",
  ne: "≠",
  plusmn: "±",
  pound: "£",
  quot: '"',
  raquo: "»",
  rarr: "→",
  rdquo: "”",
  reg: "®",
  rsquo: "’",
  sect: "§",
  times: "×",
  trade: "™",
  yen: "¥",
};

/** The character of a name without its `&` and `;`, or false. */
export function decodeNamedCharacterReference(name: string): string | false {
  return Object.hasOwn(CHARACTERS, name) ? CHARACTERS[name]! : false;
}
