// Numbers as the page writes them.

/** Few digits for large numbers and more for small ones. */
export function number(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: value >= 100 ? 0 : 1 });
}

export function count(value: number): string {
  return value.toLocaleString("en");
}

export function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

export function duration(milliseconds: number): string {
  return milliseconds >= 1000 ? `${number(milliseconds / 1000)} s` : `${Math.round(milliseconds)} ms`;
}

/** One thing, or several. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
