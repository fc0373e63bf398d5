// A model's text as elements. Nothing of it is ever parsed as HTML: it is read into a tree, and every node of the tree
// that is known here becomes an element; the rest is shown as the text that it was.
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmStrikethroughFromMarkdown } from "mdast-util-gfm-strikethrough";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmStrikethrough } from "micromark-extension-gfm-strikethrough";
import { gfmTable } from "micromark-extension-gfm-table";
import type { Nodes, Root, Table, TableRow } from "mdast";
import { createElement } from "preact";
import type { ComponentChildren } from "preact";
import { CopyButton } from "./copy_button.js";
import { EXPLANATIONS, LABELS, TokenMap } from "./origins.js";
import type { TokenSpan } from "./origins.js";

/** Texts beyond this are shown as they are: nobody reads them, and reading them as Markdown would take seconds. */
const MOST_CHARACTERS = 200_000;

/** Deepest nesting that becomes elements; a text can nest without end, and a browser's stack cannot. */
const MOST_LEVELS = 24;

interface Context {
  source: string;
  level: number;
  /** Undefined when tokens are not tinted. */
  tokens: TokenMap | undefined;
}

/** Markdown as elements, its tokens tinted where `spans` tells their origins. The spans begin where `source` does. */
export function Markdown({ source, spans }: { source: string; spans: readonly TokenSpan[] | undefined }) {
  const tokens = spans?.some((span) => span.origin) ? new TokenMap(spans) : undefined;
  const tree = source.length > MOST_CHARACTERS ? undefined : parse(source);
  return (
    <div class="markdown">
      {tree ? children(tree, { source, tokens, level: 0 }) : <p class="verbatim">{source}</p>}
    </div>
  );
}

/** Undefined for a text that the parser cannot read within the browser's stack. */
function parse(source: string): Root | undefined {
  try {
    return fromMarkdown(source, {
      extensions: [gfmTable(), gfmStrikethrough()],
      mdastExtensions: [gfmTableFromMarkdown(), gfmStrikethroughFromMarkdown()],
    });
  } catch {
    return undefined;
  }
}

function children(node: { children: Nodes[] }, context: Context): ComponentChildren {
  const inner = { ...context, level: context.level + 1 };
  return node.children.map((child) => element(child, inner));
}

function element(node: Nodes, context: Context): ComponentChildren {
  if (context.level > MOST_LEVELS) {
    return verbatim(node, context);
  }
  switch (node.type) {
    case "paragraph":
      return <p>{children(node, context)}</p>;
    case "text":
      return tinted(node.value, node, context);
    case "strong":
      return <strong>{children(node, context)}</strong>;
    case "emphasis":
      return <em>{children(node, context)}</em>;
    case "delete":
      return <del>{children(node, context)}</del>;
    case "break":
      return <br />;
    case "inlineCode":
      return <code>{tinted(node.value, node, context)}</code>;
    case "code":
      return <CodeBlock language={node.lang ?? ""} value={node.value} shown={tinted(node.value, node, context)} />;
    case "heading":
      // Below the page's own headings.
      return createElement(`h${Math.min(node.depth + 2, 6)}`, null, children(node, context));
    case "blockquote":
      return <blockquote>{children(node, context)}</blockquote>;
    case "list":
      return node.ordered ? (
        <ol start={node.start ?? 1}>{children(node, context)}</ol>
      ) : (
        <ul>{children(node, context)}</ul>
      );
    case "listItem":
      return <li class={node.spread ? undefined : "tight"}>{children(node, context)}</li>;
    case "thematicBreak":
      return <hr />;
    case "table":
      return <TableElement table={node} context={context} />;
    case "link":
      return <Link url={node.url}>{children(node, context)}</Link>;
    case "image":
      // Loading it would tell another server that the reply was read.
      return <Link url={node.url}>{node.alt || node.url}</Link>;
    default:
      return verbatim(node, context);
  }
}

function verbatim(node: Nodes, context: Context): ComponentChildren {
  return <span class="verbatim">{tinted(slice(node, context.source), node, context)}</span>;
}

function slice(node: Nodes, source: string): string {
  return source.slice(node.position?.start.offset ?? 0, node.position?.end.offset ?? 0);
}

const SAFE_PROTOCOLS = ["http:", "https:", "mailto:"];

/** A link that a person may follow, or its text alone. */
function Link({ url, children }: { url: string; children: ComponentChildren }) {
  const target = URL.canParse(url) ? new URL(url) : undefined;
  if (!target || !SAFE_PROTOCOLS.includes(target.protocol)) {
    return <span class="unlinked">{children}</span>;
  }
  return (
    <a href={target.href} title={target.href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function CodeBlock({ language, value, shown }: { language: string; value: string; shown: ComponentChildren }) {
  return (
    <div class="code">
      <div class="code-head">
        <span>{language}</span>
        <CopyButton text={value} what="code" />
      </div>
      {/* It may be wider than the page, and then the keyboard must be able to scroll it. */}
      <pre tabIndex={0} role="region" aria-label={language ? `Code, ${language}` : "Code"}>
        <code>{shown}</code>
      </pre>
    </div>
  );
}

function TableElement({ table, context }: { table: Table; context: Context }) {
  const [head, ...rows] = table.children;
  const row = ({ children: cells }: TableRow, Cell: "th" | "td") => (
    <tr>
      {cells.map((cell, column) => (
        <Cell class={`align-${table.align?.[column] ?? "left"}`}>{children(cell, context)}</Cell>
      ))}
    </tr>
  );
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>{head && row(head, "th")}</thead>
        <tbody>{rows.map((cells) => row(cells, "td"))}</tbody>
      </table>
    </div>
  );
}

/** A text node cut at token borders. */
function tinted(value: string, node: Nodes, { source, tokens }: Context): ComponentChildren {
  if (!tokens) {
    return value;
  }
  const pieces: { text: string; token: number }[] = [];
  let place = contentStart(node, source);
  for (const character of value) {
    place = find(character, place, node, source);
    const token = tokens.at(place);
    const last = pieces.at(-1);
    if (last && last.token === token) {
      last.text += character;
    } else {
      pieces.push({ text: character, token });
    }
    place += character.length;
  }
  return pieces.map(({ text, token }) => {
    const origin = tokens.origin(token);
    return origin ? (
      <span class={`token ${origin}`} title={`${LABELS[origin]}: ${EXPLANATIONS[origin]}`}>
        {text}
      </span>
    ) : (
      text
    );
  });
}

/** Where a node's own text begins in the source: behind a fence's line or a code span's backticks. */
function contentStart(node: Nodes, source: string): number {
  const text = slice(node, source);
  const start = node.position?.start.offset ?? 0;
  if (node.type === "code" && /^(```|~~~)/.test(text)) {
    return start + text.indexOf("\n") + 1;
  }
  return start + (node.type === "inlineCode" ? /^`+/.exec(text)![0].length : 0);
}

/** Where a shown character stands in the source: escapes, indents and entities leave some of the source out. */
function find(character: string, from: number, node: Nodes, source: string): number {
  const at = source.startsWith(character, from) ? from : source.indexOf(character, from);
  return at >= 0 && at < (node.position?.end.offset ?? 0) ? at : from;
}
