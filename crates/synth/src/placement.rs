//! Where the base's layers stand among the grown ones (docs/synth.md section 2).

use forerunner_checkpoint::LayerKind;

/// What a layer has, as far as it decides where the layer may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) kind: LayerKind,
    /// Whether its feed-forward is dense.
    pub(crate) is_dense: bool,
}

/// The layers of a model by their roles, of which the first `dense` are dense.
pub(crate) fn roles(kinds: &[LayerKind], dense: usize) -> Vec<Role> {
    kinds.iter().enumerate().map(|(index, kind)| Role { kind: *kind, is_dense: index < dense }).collect()
}

/// A grown layer and what it is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The base's layer whose operator it has.
    pub(crate) operator: usize,
    /// The base's layer whose feed-forward it has.
    pub(crate) feed_forward: usize,
    /// Whether it stands for that layer; otherwise it is one too many, and writes next to nothing.
    pub(crate) is_real: bool,
    /// Layers of the base that stand before it.
    pub(crate) done: usize,
}

/// The base's layers among the grown ones, spread evenly, each among layers of its role; after grown layer `taps[i]`
/// the state is the base's after layer `base_taps[i]`. `None` when there is no such order.
pub(crate) fn place(
    base: &[Role],
    grown: &[Role],
    base_taps: &[usize],
    taps: Option<&[usize]>,
) -> Option<Vec<usize>> {
    let bounds = Bounds { base, grown, base_taps, taps: taps.unwrap_or(&[]) };
    let latest = bounds.latest()?;
    let mut places: Vec<usize> = Vec::new();
    for (index, latest) in latest.iter().enumerate() {
        let after_last = places.last().map_or(0, |last| last + 1).max(bounds.first(index));
        let even = (index * grown.len() / base.len()).min(*latest);
        // The latest place fits the layer, so the search fails only where the taps leave none.
        let fits = |place: &usize| grown[*place] == base[index];
        places.push((after_last.max(even)..=*latest).find(fits)?);
    }
    Some(places)
}

/// The taps that read after the same layers as the base's, when the shape asks for none of its own.
pub(crate) fn taps_of(places: &[usize], base_taps: &[usize]) -> Vec<usize> {
    base_taps.iter().map(|tap| places[*tap]).collect()
}

/// Every grown layer, when the base's stand at `places`.
pub(crate) fn layers(base: &[Role], grown: &[Role], places: &[usize]) -> Vec<Placed> {
    let layer = |index: usize| {
        let done = places.iter().take_while(|place| **place < index).count();
        let is_real = places.get(done) == Some(&index);
        let role = grown[index];
        Placed {
            operator: next(base, done, |other| other.kind == role.kind),
            feed_forward: next(base, done, |other| other.is_dense == role.is_dense),
            is_real,
            done,
        }
    };
    (0..grown.len()).map(layer).collect()
}

/// The first layer from `from` on that fits, else the last one that does; every role of the grown model occurs in
/// the base.
fn next(base: &[Role], from: usize, fits: impl Fn(&Role) -> bool) -> usize {
    let later = base[from..].iter().position(&fits).map(|offset| from + offset);
    later.or_else(|| base.iter().rposition(&fits)).unwrap_or(from)
}

struct Bounds<'a> {
    base: &'a [Role],
    grown: &'a [Role],
    base_taps: &'a [usize],
    taps: &'a [usize],
}

impl Bounds<'_> {
    /// The first place that the taps allow layer `index`: one that is not yet done at a tap stands behind it.
    fn first(&self, index: usize) -> usize {
        let before = self.taps.iter().zip(self.base_taps).filter(|(_, base)| index > **base);
        before.map(|(tap, _)| tap + 1).max().unwrap_or(0)
    }

    /// The last place that the taps allow layer `index`.
    fn last(&self, index: usize) -> usize {
        let after = self.taps.iter().zip(self.base_taps).filter(|(_, base)| index <= **base);
        after.map(|(tap, _)| *tap).min().unwrap_or(usize::MAX)
    }

    /// The last place of each layer that leaves room for those behind it.
    fn latest(&self) -> Option<Vec<usize>> {
        let mut latest = vec![0; self.base.len()];
        let mut end = self.grown.len();
        for index in (0..self.base.len()).rev() {
            let end_here = end.min(self.last(index).saturating_add(1));
            end = (0..end_here).rfind(|place| self.grown[*place] == self.base[index])?;
            latest[index] = end;
        }
        Some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(count: usize, attention: &[usize]) -> Vec<LayerKind> {
        let kind = |index| if attention.contains(&index) { LayerKind::Attention } else { LayerKind::Conv };
        (0..count).map(kind).collect()
    }

    const BASE_TAPS: [usize; 5] = [1, 3, 6, 8, 10];

    fn demo() -> Vec<Role> {
        roles(&kinds(12, &[2, 6, 10]), 2)
    }

    /// Layers of the base that are done after `tap`.
    fn done(places: &[usize], tap: usize) -> usize {
        places.iter().filter(|place| **place <= tap).count()
    }

    #[test]
    fn taps_see_the_state_that_the_base_has_there() {
        let grown = roles(&kinds(40, &(2..40).step_by(4).collect::<Vec<_>>()), 2);
        let taps = [2, 10, 18, 26, 34];
        let places = place(&demo(), &grown, &BASE_TAPS, Some(&taps)).unwrap();
        for (tap, base) in taps.iter().zip(BASE_TAPS) {
            assert_eq!(done(&places, *tap), base + 1, "{places:?}");
        }
        assert!(places.iter().zip(demo()).all(|(place, role)| grown[*place] == role), "{places:?}");
        assert!(places.is_sorted() && places[11] >= 36, "{places:?}");
        let layers = layers(&demo(), &grown, &places);
        assert_eq!(layers.iter().filter(|layer| layer.is_real).count(), 12);
        for (layer, role) in layers.iter().zip(&grown) {
            let base = demo();
            assert_eq!(
                (base[layer.operator].kind, base[layer.feed_forward].is_dense),
                (role.kind, role.is_dense)
            );
            assert!(!layer.is_real || layer.operator == layer.feed_forward);
        }
    }

    #[test]
    fn without_taps_of_its_own_a_shape_gets_the_bases() {
        let grown = roles(&kinds(24, &[2, 6, 10, 14, 18, 21]), 2);
        let places = place(&demo(), &grown, &BASE_TAPS, None).unwrap();
        let taps = taps_of(&places, &BASE_TAPS);
        assert!(taps.iter().zip(BASE_TAPS).all(|(tap, base)| done(&places, *tap) == base + 1), "{taps:?}");
        // The released drafter's taps cannot be had: two layers of the base would have to share a place.
        assert_eq!(place(&demo(), &grown, &BASE_TAPS, Some(&[2, 6, 10, 14, 18])), None);
    }

    #[test]
    fn too_few_layers_are_refused() {
        assert_eq!(place(&demo(), &demo()[..11], &BASE_TAPS, None), None);
        assert_eq!(place(&demo(), &demo(), &BASE_TAPS, None), Some((0..12).collect()));
    }
}
