//! Mistakes of the construction are seen by the comparison that finds none.

use forerunner_reference::ReferenceTarget;
use forerunner_reference::target::{FeedForward, Operator};

use crate::function::compare;
use crate::support::{Pair, grown, prompts};

/// Features of a group.
const GROUP: usize = 64;

/// A fault's name and what it does to a grown target.
type Fault = (&'static str, fn(&mut ReferenceTarget));

const FAULTS: [Fault; 4] = [
    ("a replica is written with a wrong gain", |target| {
        for layer in &mut target.layers {
            if let Operator::Conv(conv) = &mut layer.operator {
                let inputs = conv.output.inputs;
                conv.output.values[..256 * inputs].iter_mut().for_each(|value| *value *= 1.5);
            }
        }
    }),
    ("the energy replica is missing", |target| {
        // The last group of the last replica but one.
        let end = target.config.hidden - 256;
        let energy = end - GROUP..end;
        let inputs = target.embedding.inputs;
        for row in target.embedding.values.chunks_exact_mut(inputs) {
            row[energy.clone()].fill(0.0);
        }
        for layer in &mut target.layers {
            let output = match &mut layer.operator {
                Operator::Attention(attention) => &mut attention.output,
                Operator::Conv(conv) => &mut conv.output,
            };
            let inputs = output.inputs;
            output.values[energy.start * inputs..energy.end * inputs].fill(0.0);
        }
    }),
    ("a copy of an expert's units counts twice", |target| {
        for layer in &mut target.layers {
            if let FeedForward::Mixture(mixture) = &mut layer.feed_forward {
                for expert in &mut mixture.experts {
                    let inputs = expert.down.inputs;
                    for row in expert.down.values.chunks_exact_mut(inputs) {
                        row[..GROUP].iter_mut().for_each(|value| *value *= 2.0);
                    }
                }
            }
        }
    }),
    ("a router does not see the copies", |target| {
        for layer in &mut target.layers {
            let control = layer.ffn_norm.len() - GROUP;
            layer.ffn_norm[control..].fill(0.0);
        }
    }),
];

#[test]
fn damage_is_seen() {
    let base = Pair::base().target;
    let (target, _) = grown("mid");
    let whole = ReferenceTarget::load(&target).expect("the target loads");
    let mut prompt = prompts().into_iter().find(|prompt| prompt.name == "chat").expect("a golden prompt");
    prompt.prompt.truncate(8);
    compare(&base, &whole, &prompt).expect("nothing is damaged");
    for (fault, damage) in FAULTS {
        let mut damaged = whole.clone();
        damage(&mut damaged);
        match compare(&base, &damaged, &prompt) {
            Ok(()) => panic!("{fault} passed"),
            Err(difference) => println!("{fault}: {difference}"),
        }
    }
}
