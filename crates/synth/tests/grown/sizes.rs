//! Numbers of parameters, and shapes that are refused.

use forerunner_synth::{Format, Specification};

use crate::support::{base, grown, specification};

#[test]
fn the_shapes_have_the_released_models_parameters() {
    for (text, target, drafter) in [
        ("lfm2.5-24b-a2b", 23_971_587_712, 327_707_521),
        ("lfm2.5-24b-a2b,bf16", 23_971_587_712, 327_707_521),
        ("lfm2-8b-a1b", 8_339_930_560, 295_725_953),
    ] {
        let pair = grown(text);
        assert_eq!(pair.0.summary().parameters, target, "{text}");
        assert_eq!(pair.1.summary().parameters, drafter, "{text}");
        assert!(pair.0.config().synthetic.as_ref().is_some_and(|name| name.starts_with("synthetic lfm2")));
    }
    let (target, drafter) = grown("lfm2.5-24b-a2b,4bit,0.40");
    assert_eq!(drafter.config().taps, [2, 10, 18, 26, 34]);
    assert_eq!(target.config().synthetic.as_deref(), Some("synthetic lfm2.5-24b-a2b,4bit,0.4"));
    assert_eq!((target.config().query_heads, target.config().key_value_heads), (32, 8));
    // 4.5 bits a weight, 8.5 for the routers, norms and kernels in bf16, biases in fp32.
    assert_eq!(target.summary().bytes / 1_000_000, 13_487);
}

#[test]
fn a_shape_that_the_base_cannot_take_is_refused() {
    type Change = fn(&mut Specification);
    let cases: [(Change, &str); 12] = [
        (|it| it.shape.hidden = 512, "hidden"),
        (|it| it.shape.hidden = 1025, "hidden"),
        (|it| it.shape.experts = 24, "experts"),
        (|it| it.shape.experts = 0, "experts"),
        (|it| it.shape.experts = 16 * 33, "experts"),
        (|it| it.shape.dense_width = 1000, "dense_width"),
        (|it| it.shape.expert_width = 64, "expert_width"),
        (|it| it.shape.vocabulary = 8191, "vocabulary"),
        (|it| it.shape.markov_rank = 96, "markov_rank"),
        (|it| it.shape.layers = usize::MAX, "layers"),
        (|it| it.shape.attention = vec![2, 3], "attention"),
        (|it| it.shape.taps = Some(vec![3, 1]), "taps"),
    ];
    let base = base(Format::Bits4);
    for (change, field) in cases {
        let mut specification = specification("mid");
        change(&mut specification);
        for error in [base.grow_target(&specification).err(), base.grow_drafter(&specification).err()] {
            let error = error.unwrap_or_else(|| panic!("{field} passed")).to_string();
            assert!(error.contains(field) && error.contains("accepted"), "{error}");
        }
    }
}
