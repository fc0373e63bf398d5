// Reads server-sent events, however the bytes were cut.

/** The data of each event, in order. Comments and other fields are skipped. */
export class EventReader {
  private decoder = new TextDecoder();
  private pending = "";

  /** Takes bytes and returns the data of the events that they complete. */
  push(bytes: Uint8Array): string[] {
    this.pending += this.decoder.decode(bytes, { stream: true });
    const events: string[] = [];
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.pending);
      if (!end) {
        return events;
      }
      const data = dataOf(this.pending.slice(0, end.index));
      this.pending = this.pending.slice(end.index + end[0].length);
      if (data !== undefined) {
        events.push(data);
      }
    }
  }
}

function dataOf(event: string): string | undefined {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length > 0 ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : undefined;
}
