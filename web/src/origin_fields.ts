// How a request asks for the origins of its tokens, and where a chunk tells them.
import { ORIGINS } from "./origins.js";
import type { Origin } from "./origins.js";

/** Added to every request. A server that does not know the field leaves it unread. */
export const ORIGIN_FIELDS = { token_origins: true } as const;

/** The tokens that a chunk's choice tells of, with their text; none from a server that tells none. */
export function readOrigins(choice: { token_origins?: unknown }): { text: string; origin: Origin }[] {
  const tokens: unknown = choice.token_origins;
  return Array.isArray(tokens) ? tokens.map(readToken) : [];
}

/** An origin that is not known here is one that a plain reply may have as well. */
function readToken(token: { text?: unknown; origin?: unknown } | null): { text: string; origin: Origin } {
  const origin = ORIGINS.find((known) => known === token?.origin) ?? "plain";
  return { text: String(token?.text ?? ""), origin };
}
