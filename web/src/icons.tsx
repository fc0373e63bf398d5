// The page's few icons, as strokes in the colour of the text.

const PATHS = {
  chart: "M4 19V5M4 19h16M8 15l3.5-4 3 2.5L20 7",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  down: "M12 5v14M6 13l6 6 6-6",
} as const;

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The mark: the model, and the drafts ahead of it. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <path d="M6 7l9 9-9 9" />
      <path d="M15 9l7 7-7 7" opacity="0.55" />
      <path d="M23 11l5 5-5 5" opacity="0.28" />
    </svg>
  );
}
