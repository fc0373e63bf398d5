//! A target that replies one text to every prompt, and whose drafter knows it.

use forerunner_lanes::{
    HeldDraft, Limits, OpenLane, Round, RoundOut, Target, TargetError, TokenId, TokenLogprob, WindowOut,
};
use forerunner_text::Tokenizer;

/// The token that ends a reply.
pub(crate) const END: &str = "<|im_end|>";

/// What a lane holds is its prompt's length alone: what is drawn depends on nothing else.
pub(crate) struct ScriptedTarget {
    limits: Limits,
    reply: Vec<TokenId>,
    prompts: Vec<Option<usize>>,
    /// The round that was queued.
    out: RoundOut,
    /// What each lane's opener asked for.
    logprobs: Vec<Option<usize>>,
}

impl ScriptedTarget {
    /// A target that writes `reply`, then its end.
    pub(crate) fn new(limits: Limits, tokenizer: &Tokenizer, reply: &str) -> Self {
        let mut tokens = tokenizer.encode(reply, false).expect("tokens");
        tokens.push(tokenizer.token_to_id(END).expect("the demo model has it"));
        let (prompts, logprobs) = (vec![None; limits.lanes], vec![None; limits.lanes]);
        ScriptedTarget { limits, reply: tokens, prompts, logprobs, out: RoundOut::default() }
    }

    /// What is drawn for this position of a lane.
    fn at(&self, lane: usize, position: usize) -> TokenId {
        let prompt = self.prompts[lane].expect("an open lane");
        let index = position.saturating_sub(prompt).min(self.reply.len() - 1);
        self.reply[index]
    }
}

impl ScriptedTarget {
    /// What a lane is told of a draw, if it asks: it was certain, and the tokens after it in the vocabulary less so.
    fn told(&self, lane: usize, drawn: TokenId) -> impl Iterator<Item = TokenLogprob> {
        let told = self.logprobs[lane].map_or(0, |alternatives| 1 + alternatives as u32);
        (0..told).map(move |place| TokenLogprob { token: drawn + place, logprob: -(place as f32) })
    }
}

impl Target for ScriptedTarget {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        self.prompts[lane] = Some(open.prompt.len());
        self.logprobs[lane] = open.logprobs;
        Ok(0)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        let mut out = RoundOut::default();
        for window in round.windows {
            let tokens = &round.tokens[window.tokens.clone()];
            let (drawn, held) = (out.drawn.len(), out.held.len());
            let first = window.position + tokens.len() - window.drafts;
            let draws = if window.draws { window.drafts + 1 } else { 0 };
            out.drawn.extend((0..draws).map(|row| self.at(window.lane, first + row)));
            let drafts = &tokens[tokens.len() - window.drafts..];
            let accepted = drafts.iter().zip(&out.drawn[drawn..]).take_while(|(a, b)| a == b).count();
            let next = first + accepted + 1;
            out.held.extend(
                (0..window.hold)
                    .map(|depth| HeldDraft { token: self.at(window.lane, next + depth), confidence: 5.0 }),
            );
            let (drawn, held) = (drawn..out.drawn.len(), held..out.held.len());
            let logprobs = out.logprobs.len();
            for index in drawn.clone() {
                out.logprobs.extend(self.told(window.lane, out.drawn[index]));
            }
            let logprobs = logprobs..out.logprobs.len();
            out.windows.push(WindowOut { drawn, accepted, held, logprobs });
        }
        self.out = out;
        Ok(())
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        *out = std::mem::take(&mut self.out);
        Ok(())
    }

    fn close(&mut self, lane: usize) {
        self.prompts[lane] = None;
    }

    fn pages_in_use(&self) -> usize {
        self.prompts.iter().flatten().count()
    }

    fn pages_total(&self) -> usize {
        self.prompts.len()
    }
}
