//! `route`, `expert_feed_forward` and both at once as `mixture`: picks with margins and with exact ties, weights, and
//! the experts' sum.

use forerunner_tensor::{Device, DeviceError, ExpertWeights, NO_LANE, RouteRule, Routing, bf16};

use super::host::{activations, download, download_as, free_lanes, lane_rows, place_random, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::inputs::{Format, MatrixShape, Random, spike};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

/// Layers that share a [`Routing`], and the one that is written.
const LAYERS: usize = 3;
const LAYER: usize = 1;

struct Route {
    hidden: usize,
    experts: usize,
    rule: RouteRule,
    format: Format,
}

struct ExpertFeedForward {
    hidden: usize,
    intermediate: usize,
    experts: usize,
    picks: usize,
    formats: [Format; 3],
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for (hidden, experts, picks, normalize, scale, format) in [
        (64, 4, 2, true, 1.0, Format::Bf16),
        (128, 16, 4, true, 1.0, Format::Affine(8, 64)),
        (256, 16, 2, false, 2.5, Format::Bf16),
        (2048, 16, 4, true, 1.0, Format::F32),
    ] {
        let rule = RouteRule { picks, normalize, scale };
        visitor.operation(&Route { hidden, experts, rule, format });
    }
    let (affine4, affine8) = (Format::Affine(4, 32), Format::Affine(8, 32));
    for (hidden, intermediate, experts, picks, formats) in [
        (64, 96, 4, 2, [Format::Bf16; 3]),
        (128, 64, 16, 4, [affine4; 3]),
        (64, 64, 16, 2, [affine4, affine8, Format::Bf16]),
        // So many rows an expert that they come in large blocks.
        (64, 128, 4, 2, [affine4; 3]),
        (64, 64, 3, 2, [affine8; 3]),
    ] {
        visitor.operation(&ExpertFeedForward { hidden, intermediate, experts, picks, formats });
    }
    for (hidden, intermediate, experts, picks, format) in
        [(64, 64, 16, 2, Format::Bf16), (128, 64, 16, 4, affine4), (128, 64, 80, 4, affine8)]
    {
        let rule = RouteRule { picks, normalize: true, scale: 1.0 };
        let route = Route { hidden, experts, rule, format: Format::Bf16 };
        let formats = [format; 3];
        let experts = ExpertFeedForward { hidden, intermediate, experts, picks, formats };
        visitor.operation(&Mixture { route, experts });
    }
}

/// A layer's router and experts together.
struct Mixture {
    route: Route,
    experts: ExpertFeedForward,
}

impl Route {
    /// Three experts share a bias, so that equal scores tie and a tie stands at the last pick.
    fn bias(&self) -> Vec<f32> {
        let mut bias = Random::new(&[20]).floats(self.experts, 0.25);
        for equal in bias.chunks_mut(3) {
            equal.fill(equal[0]);
        }
        bias
    }

    /// Lane 3's row is zeros: all of its logits are 0, whatever the order of the sum.
    fn inputs(&self, layout: &Layout) -> Vec<bf16> {
        let mut x = activations(21, layout, self.hidden, 2.0);
        for (row, place) in x.chunks_exact_mut(self.hidden).zip(layout) {
            if matches!(place, Place::Row { lane: 3, .. }) {
                row.fill(bf16::ZERO);
            }
        }
        x
    }

    fn outputs<D: Device>(
        &self,
        device: &D,
        routing: &Routing<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let len = layout.len() * self.rule.picks;
        let experts = download_as(device, &routing.experts, len)?;
        let of_pads: Vec<f64> = experts
            .chunks_exact(self.rule.picks)
            .zip(layout)
            .filter(|(_, place)| **place == Place::Pad)
            .flat_map(|(row, _)| row)
            .copied()
            .collect();
        Ok(vec![
            Output::of_rows("experts", Bound::Exact, layout, experts),
            Output::of_rows("weights", Bound::Fp32, layout, download_as(device, &routing.weights, len)?),
            Output::exact("distinct", Key::Forward, download_as(device, &routing.distinct, LAYERS)?),
            Output::exact("experts of pad rows", Key::Forward, [of_pads, vec![-1.0]].concat()),
        ])
    }
}

impl RowOp for Route {
    type State<D: Device> = (D::Matrix, D::Buffer<f32>);

    fn name(&self) -> String {
        let RouteRule { picks, normalize, scale } = self.rule;
        let Route { hidden, experts, format, .. } = self;
        format!("route {hidden} {format:?} to {picks} of {experts}, normalize {normalize}, scale {scale}")
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<Self::State<D>, DeviceError> {
        let router = MatrixShape::new(self.experts, self.hidden, self.format);
        Ok((device.load_matrix(&router.host(22))?, upload(device, &self.bias())?))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        (router, bias): &mut Self::State<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let rows = lane_rows(device, layout)?;
        let x = upload(device, &self.inputs(layout))?;
        let mut routing = unrouted(device, layout.len() * self.rule.picks)?;
        device.route(router, bias, self.rule, &x, &rows, LAYER, &mut routing);
        self.outputs(device, &routing, layout)
    }
}

impl ExpertFeedForward {
    /// Picks and weights of every row, as a router would write them.
    fn routing<D: Device>(&self, device: &D, layout: &Layout) -> Result<Routing<D>, DeviceError> {
        let (mut experts, mut weights) = (Vec::new(), Vec::new());
        for place in layout {
            let mut random = place_random(23, *place);
            let mut picked: Vec<i32> = (0..self.experts as i32).collect();
            random.shuffle(&mut picked);
            picked.truncate(self.picks);
            picked.sort_unstable();
            if *place == Place::Pad {
                picked.fill(NO_LANE);
            }
            experts.extend(picked);
            weights.extend(random.floats(self.picks, 0.5).into_iter().map(|weight| weight + 0.5));
        }
        Ok(Routing {
            experts: upload(device, &experts)?,
            weights: upload(device, &weights)?,
            distinct: device.allocate(LAYERS)?,
        })
    }
}

impl RowOp for ExpertFeedForward {
    type State<D: Device> = D::Experts;

    fn name(&self) -> String {
        let ExpertFeedForward { hidden, intermediate, experts, picks, formats } = self;
        format!("expert_feed_forward {hidden} to {intermediate}, {picks} of {experts} {formats:?}")
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<D::Experts, DeviceError> {
        let matrix = |seed, rows, columns, format| {
            MatrixShape::new(rows, columns, format).host(seed).pop().expect("one part")
        };
        let mut experts = (0..self.experts).map(|expert| ExpertWeights {
            gate: matrix(100 + expert as u64, self.intermediate, self.hidden, self.formats[0]),
            up: matrix(200 + expert as u64, self.intermediate, self.hidden, self.formats[1]),
            down: matrix(300 + expert as u64, self.hidden, self.intermediate, self.formats[2]),
        });
        device.load_experts(&mut experts)
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        experts: &mut D::Experts,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let rows = lane_rows(device, layout)?;
        let routing = self.routing(device, layout)?;
        let x = upload(device, &spike(activations(24, layout, self.hidden, 2.0), layout))?;
        let mut residual = upload(device, &activations(25, layout, self.hidden, 3.0))?;
        device.expert_feed_forward(experts, &routing, self.picks, &x, &rows, &mut residual);
        let values = download(device, &residual, layout.len() * self.hidden)?;
        Ok(vec![Output::of_rows("residual", Bound::Bf16 { steps: 3.0 }, layout, values)])
    }
}

impl RowOp for Mixture {
    type State<D: Device> = (<Route as RowOp>::State<D>, D::Experts);

    fn name(&self) -> String {
        format!("mixture of {} and {}", self.route.name(), self.experts.name())
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<Self::State<D>, DeviceError> {
        Ok((self.route.prepare(device)?, self.experts.prepare(device)?))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        ((router, bias), experts): &mut Self::State<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let rows = lane_rows(device, layout)?;
        let x = upload(device, &self.route.inputs(layout))?;
        let mut residual = upload(device, &activations(25, layout, self.route.hidden, 3.0))?;
        let mut routing = unrouted(device, layout.len() * self.route.rule.picks)?;
        let rule = self.route.rule;
        device.mixture(router, bias, rule, experts, &x, &rows, LAYER, &mut routing, &mut residual);
        let values = download(device, &residual, layout.len() * self.route.hidden)?;
        let sum = Output::of_rows("residual", Bound::Bf16 { steps: 3.0 }, layout, values);
        let mut outputs = self.route.outputs(device, &routing, layout)?;
        outputs.push(sum);
        Ok(outputs)
    }
}

/// A routing of so many picks that nothing has written.
fn unrouted<D: Device>(device: &D, picks: usize) -> Result<Routing<D>, DeviceError> {
    Ok(Routing {
        experts: upload(device, &vec![77i32; picks])?,
        weights: device.allocate(picks)?,
        distinct: upload(device, &[-5i32; LAYERS])?,
    })
}
