// Copies a text, and says that it has.
import { useState } from "preact/hooks";

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  // Browsers lend the clipboard to secure pages alone, which a server's address in a local network is not.
  if (!navigator.clipboard) {
    return null;
  }
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="quiet" onClick={copy} aria-label={copied ? `Copied ${what}` : `Copy ${what}`}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
