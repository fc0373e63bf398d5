//! Draws a chart as SVG: lines over numbers or over named places.

use anyhow::Result;
use plotters::prelude::*;

const SIZE: (u32, u32) = (860, 480);

/// Colours that tell series apart for readers with any kind of colour vision (after Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(160, 120, 60),
];

/// A chart of some series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    /// The file's name without its ending.
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    /// Names of the places 0, 1, 2 ... on the x axis; it has numbers when there are none.
    pub(super) places: Vec<String>,
    pub(super) series: Vec<Series>,
}

/// Points with a name, joined by a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Chart {
    /// Whether there is anything to draw.
    pub(super) fn has_points(&self) -> bool {
        self.series.iter().any(|series| !series.points.is_empty())
    }

    /// The chart as SVG.
    pub(super) fn svg(&self) -> Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let (across, up) = self.ranges();
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, ("sans-serif", 18))
                .margin(14)
                .x_label_area_size(46)
                .y_label_area_size(72)
                .build_cartesian_2d(across, up)?;
            let label = |x: &f64| self.label(*x);
            let labels = if self.places.is_empty() { 10 } else { self.places.len() };
            chart
                .configure_mesh()
                .x_desc(&self.x)
                .y_desc(&self.y)
                .x_labels(labels)
                .x_label_formatter(&label)
                .light_line_style(TRANSPARENT)
                .bold_line_style(RGBColor(225, 225, 225))
                .draw()?;
            for (series, colour) in self.series.iter().zip(COLOURS.into_iter().cycle()) {
                let line =
                    LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
                let sample = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
                chart.draw_series(line)?.label(&series.name).legend(sample);
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(200, 200, 200))
                .draw()?;
            area.present()?;
        }
        // The repository's files end their last line.
        text.push('\n');
        Ok(text)
    }

    fn label(&self, x: f64) -> String {
        let place = x.round();
        match self.places.get(place as usize) {
            // Marks between places have no name.
            Some(name) if (x - place).abs() < 0.01 => name.clone(),
            Some(_) => String::new(),
            None if self.places.is_empty() => format!("{}", (x * 100.0).round() / 100.0),
            None => String::new(),
        }
    }

    /// From the first to the last point, and from nothing to a little above the highest: a speed has no other origin.
    fn ranges(&self) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let low = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let high = if high > low { high } else { low + 1.0 };
        (low..high, 0.0..if top > 0.0 { 1.25 * top } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(places: &[&str]) -> Chart {
        Chart {
            name: "a",
            title: "Speed".into(),
            x: "streams".into(),
            y: "tok/s".into(),
            places: places.iter().map(ToString::to_string).collect(),
            series: vec![Series { name: "plain".into(), points: vec![(0.0, 1.0), (1.0, 3.0)] }],
        }
    }

    #[test]
    fn a_chart_has_its_names_and_is_drawn_the_same_each_time() {
        let svg = chart(&["one", "two"]).svg().unwrap();
        for part in ["<svg", "Speed", "streams", "tok/s", "plain", "one", "two"] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert_eq!(svg, chart(&["one", "two"]).svg().unwrap());
    }

    #[test]
    fn an_axis_begins_at_nothing_and_a_lone_point_has_room() {
        assert_eq!(chart(&[]).ranges(), (0.0..1.0, 0.0..3.75));
        let lone =
            Chart { series: vec![Series { name: "a".into(), points: vec![(5.0, 0.0)] }], ..chart(&[]) };
        assert_eq!(lone.ranges(), (5.0..6.0, 0.0..1.0));
        assert!(lone.has_points() && !Chart { series: Vec::new(), ..chart(&[]) }.has_points());
    }
}
