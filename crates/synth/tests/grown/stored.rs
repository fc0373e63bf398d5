//! What is written is what is made in memory, what is made follows the formulas, and 4 bits are exact.

use std::sync::Arc;

use forerunner_checkpoint::{
    FeedForwardWeights, OperatorWeights, TargetCheckpoint, TensorSource, write_source,
};
use forerunner_synth::{Base, Format, GrownCheckpoint};
use forerunner_tensor::{HostMatrix, MatrixValues, Scales, bf16, quantize};

use crate::support::{base, demo_drafter, demo_target, specification, workspace};

/// Bytes `start..` of the tensor called `name`.
fn bytes(source: &GrownCheckpoint, name: &str, start: usize, count: usize) -> Vec<u8> {
    let index = source.tensors().iter().position(|info| info.name == name);
    let mut bytes = vec![0xff; count];
    source.read(index.unwrap_or_else(|| panic!("there is no {name}")), start, &mut bytes);
    bytes
}

/// Row `row` of a bf16 tensor.
fn row(source: &GrownCheckpoint, name: &str, row: usize) -> Vec<f32> {
    let info = source.tensors().iter().find(|info| info.name == name);
    let width =
        info.unwrap_or_else(|| panic!("there is no {name}")).shape.last().copied().expect("a row") * 2;
    let bytes = bytes(source, name, row * width, width);
    bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
}

/// Source feature and gain of position `p` of 2048 (docs/synth.md section 1, written out).
fn written(p: usize) -> (usize, f32) {
    let (copy, feature) = (p / 256, p % 256);
    let gain = match (feature >= 192, copy) {
        (true, 6) => std::f32::consts::SQRT_2,
        (true, 7) => 0.0,
        _ => 1.0,
    };
    (feature, gain)
}

/// Source feature and read weight of position `p` of 2048.
fn read(p: usize) -> (usize, f32) {
    let (copy, feature) = (p / 256, p % 256);
    let weight = match (feature >= 192, copy) {
        (false, _) | (true, 0..4) => 0.125,
        (true, 4 | 5) => 0.25,
        (true, _) => 0.0,
    };
    (feature, weight)
}

fn rounded(value: f32) -> f32 {
    bf16::from_f32(value).to_f32()
}

#[test]
fn the_full_shape_follows_the_formulas() {
    let specification = specification("lfm2.5-24b-a2b,bf16");
    let grown = base(Format::Bf16).grow_target(&specification).expect("grows");
    let demo = demo_target(Format::Bits4).expect("in the repository");
    let embedding = demo.embedding().expect("reads").to_bf16();
    let value =
        |matrix: &[bf16], width: usize, row: usize, column: usize| matrix[row * width + column].to_f32();

    let found = row(&grown, "model.embed_tokens.weight", 20_000);
    let token = 20_000 % 8192;
    for (p, found) in found.iter().enumerate().take(2048 - 64) {
        let (feature, gain) = written(p);
        assert_eq!(*found, rounded(value(&embedding, 256, token, feature) * gain), "feature {p}");
    }
    assert_eq!(found[2048 - 32], -128.0);
    let known = row(&grown, "model.embed_tokens.weight", 7);
    assert_eq!(
        (known[2048 - 32], known[2048 - 64..2048 - 60].iter().sum::<f32>()),
        (68.0 / 16384.0, 255.0 / 16384.0)
    );

    let OperatorWeights::Conv { input, output, .. } = demo.layer(1).expect("reads").operator else {
        panic!("layer 1 is a convolution");
    };
    let (input, output) = (input.to_bf16(), output.to_bf16());
    // Row 300 of the block C stands for row 300 - 256 of the source's.
    let found = row(&grown, "model.layers.1.conv.in_proj.weight", 2048 + 300);
    for (p, found) in found.iter().enumerate() {
        let (feature, weight) = read(p);
        assert_eq!(*found, value(&input, 256, 256 + 44, feature) * weight, "column {p}");
    }
    for p in [5, 6 * 256 + 200, 7 * 256 + 200] {
        let found = row(&grown, "model.layers.1.conv.out_proj.weight", p);
        let (feature, gain) = written(p);
        for (column, found) in found.iter().enumerate() {
            assert_eq!(
                *found,
                rounded(value(&output, 256, feature, column % 256) * gain / 8.0),
                "{p}, {column}"
            );
        }
    }

    // The last mixture of the base stands at one of the last layers; expert 37 is the third copy of expert 5.
    let FeedForwardWeights::Experts { mut experts, router, .. } = demo.layer(11).expect("reads").feed_forward
    else {
        panic!("layer 11 is a mixture");
    };
    let expert = experts.nth(5).expect("expert 5");
    let (gate, down, router) = (expert.gate.to_bf16(), expert.down.to_bf16(), router.to_bf16());
    let path = "model.layers.36.feed_forward";
    let found = row(&grown, &format!("{path}.experts.37.w1.weight"), 1000);
    for (p, found) in found.iter().enumerate() {
        let (feature, weight) = read(p);
        assert_eq!(*found, value(&gate, 256, 1000 % 128, feature) * weight, "column {p}");
    }
    let found = row(&grown, &format!("{path}.experts.37.w2.weight"), 3);
    for (unit, found) in found.iter().enumerate() {
        let part = if unit / 128 < 8 { 1.0 / 16.0 } else { 2.0 / 16.0 };
        assert_eq!(*found, value(&down, 128, 3, unit % 128) * part, "unit {unit}");
    }
    let found = row(&grown, &format!("{path}.gate.weight"), 37);
    for (p, found) in found.iter().enumerate().take(2048 - 64) {
        let (feature, weight) = read(p);
        assert_eq!(*found, value(&router, 256, 5, feature) * weight, "column {p}");
    }
    let penalties = &found[2048 - 64..2048 - 59];
    assert_eq!((penalties[2], penalties[4]), (0.0, 0.0));
    assert!(penalties[0] <= -255.0 && penalties[1] == penalties[0] && penalties[3] == penalties[0]);
}

#[test]
fn what_is_written_is_what_is_made() {
    let specification = specification("mid");
    let base = base(Format::Bits4);
    let directory = std::env::temp_dir().join(format!("forerunner-synth-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let grown = base.grow_target(&specification).expect("grows");
    let demo = workspace().join("assets/demo/target");
    write_source(&grown, Some(&demo), &directory, 40_000_000).expect("writes");
    let error = write_source(&grown, None, &directory, 1).unwrap_err().to_string();
    assert!(error.contains("empty directory"), "{error}");
    let stored = TargetCheckpoint::open(&directory).expect("opens");
    assert!(stored.summary().files.len() > 2 && directory.join("tokenizer.json").exists());
    let source: Arc<dyn TensorSource> = Arc::new(grown);
    let made = TargetCheckpoint::from_source(&source).expect("opens");
    assert_eq!(stored.config(), made.config());
    assert_eq!(stored.summary().bytes, made.summary().bytes);
    let codes = |checkpoint: &TargetCheckpoint| {
        let FeedForwardWeights::Experts { mut experts, router, .. } =
            checkpoint.layer(9).expect("reads").feed_forward
        else {
            panic!("layer 9 is a mixture");
        };
        let expert = experts.nth(19).expect("expert 19");
        [expert.gate.to_bf16(), expert.up.to_bf16(), expert.down.to_bf16(), router.to_bf16()]
    };
    assert!(codes(&stored) == codes(&made));
    assert!(stored.embedding().expect("reads").to_bf16() == made.embedding().expect("reads").to_bf16());
    std::fs::remove_dir_all(&directory).expect("removes");
}

/// The codes, scales and biases of a quantized matrix.
fn parts(matrix: &HostMatrix<'_>) -> (Vec<u32>, Vec<bf16>, Vec<bf16>) {
    let MatrixValues::Affine(values) = &matrix.values else { panic!("a quantized matrix") };
    let (Scales::Bf16(scales), Scales::Bf16(biases)) = (&values.scales, &values.biases) else {
        panic!("bf16")
    };
    (values.words.to_vec(), scales.to_vec(), biases.to_vec())
}

#[test]
fn four_bits_of_what_is_grown_are_what_grows_of_four_bits() {
    let Some(dense) = demo_target(Format::Bf16) else {
        println!("skipped: the bf16 demo target is not here");
        return;
    };
    // The quantizer is MLX's: it makes the file that MLX made.
    let file = demo_target(Format::Bits4).expect("in the repository");
    let (words, scales, biases) = parts(&file.embedding().expect("reads"));
    let quantized = quantize(&dense.embedding().expect("reads").to_bf16(), 4);
    assert!(quantized.words == words && quantized.scales == scales && quantized.biases == biases);

    let specification = specification("lfm2.5-24b-a2b");
    let drafter = demo_drafter(&dense);
    let grow = |format| {
        Base::load(&dense, &drafter, format).expect("a base").grow_target(&specification).expect("grows")
    };
    let (codes, values) = (grow(Format::Bits4), grow(Format::Bf16));
    let conv = "model.layers.1.conv";
    let experts = "model.layers.36.feed_forward";
    for (quantized, dense, bits, rows) in [
        ("model.embed_tokens".to_owned(), "model.embed_tokens".to_owned(), 4, [0, 8191]),
        (format!("{conv}.in_proj"), format!("{conv}.in_proj"), 4, [0, 5000]),
        (format!("{conv}.out_proj"), format!("{conv}.out_proj"), 4, [0, 1000]),
        (format!("{experts}.gate"), format!("{experts}.gate"), 8, [0, 63]),
        (format!("{experts}.switch_mlp.down_proj"), format!("{experts}.experts.0.w2"), 4, [0, 1500]),
    ] {
        for index in rows {
            let values = row(&values, &format!("{dense}.weight"), index);
            let expected =
                quantize(&values.iter().map(|value| bf16::from_f32(*value)).collect::<Vec<_>>(), bits);
            check_row(&codes, &quantized, index, &expected);
        }
    }
}

/// Equal values, but for the groups of the energy replica, whose scales are rounded anew.
fn check_row(
    source: &GrownCheckpoint,
    path: &str,
    index: usize,
    expected: &forerunner_tensor::QuantizedMatrix,
) {
    let groups = expected.scales.len();
    let part = |name: &str, width: usize| bytes(source, &format!("{path}.{name}"), index * width, width);
    let halves = |bytes: Vec<u8>| -> Vec<bf16> {
        bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]])).collect()
    };
    let words = part("weight", expected.words.len() * 4);
    let words =
        words.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let row = |words: Vec<u32>, scales: Vec<bf16>, biases: Vec<bf16>| {
        let matrix = HostMatrix {
            rows: 1,
            columns: groups * 64,
            values: MatrixValues::Affine(forerunner_tensor::AffineValues {
                bits: expected.bits,
                group_size: 64,
                words: words.into(),
                scales: Scales::Bf16(scales.into()),
                biases: Scales::Bf16(biases.into()),
            }),
        };
        matrix.to_bf16()
    };
    let found = row(words, halves(part("scales", groups * 2)), halves(part("biases", groups * 2)));
    let expected = row(expected.words.clone(), expected.scales.clone(), expected.biases.clone());
    let is_energy = |column: usize| path.contains("embed") && column / 64 == 6 * 4 + 3;
    for (column, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(
            found == expected || is_energy(column),
            "{path}, row {index}, column {column}: {found} {expected}"
        );
    }
}
