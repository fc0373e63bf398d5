// A small line over the last two minutes, by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { shownTheme } from "./settings.js";

export interface Line {
  name: string;
  /** The name of a colour of the style sheet. */
  colour: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  /** What the newest values say. */
  now: string;
  times: number[];
  lines: Line[];
  /** The least upper end of the vertical axis. */
  least: number;
  format: (value: number) => string;
}

const HEIGHT = 74;

/** What the horizontal axis spans at least. */
const LEAST_SECONDS = 20;

export function Chart({ title, now, times, lines, least, format }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const theme = shownTheme.value;
  useEffect(() => {
    const element = holder.current!;
    const made = new uPlot(options(element, lines, least, format), data(times, lines), element);
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
    };
    // Colours are painted, so a theme needs a new plot.
  }, [theme]);
  useEffect(() => plot.current?.setData(data(times, lines)), [times]);
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <b>{now}</b>
      </figcaption>
      <div ref={holder} class="plot" aria-hidden="true" />
    </figure>
  );
}

function data(times: number[], lines: Line[]): uPlot.AlignedData {
  return [times, ...lines.map((line) => line.values)];
}

function options(element: HTMLElement, lines: Line[], least: number, format: (value: number) => string): uPlot.Options {
  const colour = (name: string) => resolved(element, name);
  const font = `11px ${getComputedStyle(element).fontFamily}`;
  const axis = { stroke: colour("muted"), font, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "engine" } },
    padding: [7, 4, 7, 0],
    scales: { x: { range: (_plot, first, last) => [Math.min(first, last - LEAST_SECONDS), last] }, y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, least)] } },
    axes: [
      { ...axis, show: false },
      {
        ...axis,
        size: 38,
        gap: 4,
        grid: { stroke: colour("line"), width: 1 },
        splits: (plot) => [0, (plot.scales["y"]!.max ?? least) / 2.2, (plot.scales["y"]!.max ?? least) / 1.1],
        values: (_plot, splits) => splits.map(format),
      },
    ],
    series: [
      {},
      ...lines.map((line, index) => ({
        label: line.name,
        stroke: colour(line.colour),
        width: 1.5,
        points: { show: false, filter: alone, size: 4, fill: colour(line.colour) },
        spanGaps: false,
        ...(index === 0 ? { fill: translucent(colour(line.colour)) } : {}),
      })),
    ],
  };
}

/** The points without a neighbour, which no line shows. */
function alone({ data }: uPlot, series: number): number[] {
  const values = data[series]!;
  return [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
}

/** A colour of the style sheet as a canvas takes it: of the theme that is shown. */
function resolved(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = "";
  return color;
}

function translucent(rgb: string): string {
  return rgb.replace("rgb(", "rgba(").replace(")", ", 0.13)");
}
