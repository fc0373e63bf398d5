//! The families of the metrics page.

use forerunner_engine::{Counts, GuardState, Side, Status, Totals};

use super::ReplyMetrics;
use super::exposition::{Exposition, Kind};
use crate::service::Service;

/// Our own families begin with this.
const OWN: &str = "forerunner:";

/// The whole page.
pub(super) fn page(service: &Service) -> String {
    let (model, parallel) = (service.model(), service.engine.info().parallel);
    let counts = service.engine.counts();
    let mut writer = Writer { page: Exposition::default(), model };
    writer.load(&service.engine.status(), &counts, parallel);
    writer.tokens(&counts);
    writer.drafts(&counts.totals);
    writer.rounds(&counts.totals);
    writer.requests(&counts.totals);
    writer.guards(&counts.guards);
    writer.replies(&service.metrics.lock());
    writer.page.finish()
}

struct Writer<'a> {
    page: Exposition,
    model: &'a str,
}

impl Writer<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.page.single(name, Kind::Counter, help, &[("model_name", self.model)], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.page.single(name, Kind::Gauge, help, &[("model_name", self.model)], value);
    }

    /// A counter with one sample a value of a label.
    fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.page.family(name, Kind::Counter, help);
        for (value, count) in values {
            self.page.sample(name, &[("model_name", self.model), (label, value)], count);
        }
    }

    fn load(&mut self, status: &Status, counts: &Counts, parallel: usize) {
        let use_share = status.pages_in_use as f64 / status.pages.max(1) as f64;
        self.gauge("vllm:num_requests_running", "Replies being generated.", status.running as f64);
        self.gauge("vllm:num_requests_waiting", "Requests without a lane yet.", status.waiting as f64);
        self.gauge(
            "vllm:kv_cache_usage_perc",
            "Share of the pages that running replies hold, 0 to 1.",
            use_share,
        );
        let (size, pages) = (status.page_tokens.to_string(), status.pages.to_string());
        let labels = [("block_size", size.as_str()), ("num_gpu_blocks", &pages)];
        self.page.single("vllm:cache_config_info", Kind::Gauge, "Size and number of pages.", &labels, 1);
        self.gauge(
            &format!("{OWN}pages_in_use"),
            "Pages that running replies hold.",
            status.pages_in_use as f64,
        );
        self.gauge(&format!("{OWN}pages_total"), "Pages there are.", status.pages as f64);
        self.gauge(&format!("{OWN}lanes"), "Replies that can be generated at once.", parallel as f64);
        self.gauge(
            &format!("{OWN}unread_prompt_tokens"),
            "Tokens of prompts that wait or are being read.",
            counts.unread_tokens as f64,
        );
        self.gauge(
            &format!("{OWN}reply_tokens_per_second"),
            "Reply tokens a second, of about the last second.",
            counts.tokens_per_second,
        );
    }

    fn tokens(&mut self, counts: &Counts) {
        self.counter("vllm:prompt_tokens_total", "Tokens of prompts read.", counts.prompt_tokens);
        self.counter("vllm:generation_tokens_total", "Reply tokens committed.", counts.totals.reply_tokens);
        self.counter(
            "vllm:prefix_cache_queries_total",
            "Prompt tokens looked up among stored prefixes.",
            counts.prompt_tokens,
        );
        self.counter(
            "vllm:prefix_cache_hits_total",
            "Prompt tokens found in a stored prefix.",
            counts.cached_tokens,
        );
        self.counter(
            &format!("{OWN}cached_tokens_total"),
            "Prompt tokens not read again.",
            counts.cached_tokens,
        );
    }

    /// The drafter's drafts under vLLM's names; copies of earlier text and forced tokens apart.
    fn drafts(&mut self, totals: &Totals) {
        let windows = totals.by_position[0].0;
        self.counter("vllm:spec_decode_num_drafts_total", "Windows with the drafter's drafts.", windows);
        self.counter(
            "vllm:spec_decode_num_draft_tokens_total",
            "Drafts of the drafter verified.",
            totals.drafts - totals.copies - totals.forced,
        );
        self.counter(
            "vllm:spec_decode_num_accepted_tokens_total",
            "Drafts of the drafter accepted.",
            totals.accepted - totals.copies_accepted - totals.forced_accepted,
        );
        let positions = || totals.by_position.iter().take_while(|(verified, _)| *verified > 0).enumerate();
        let names: Vec<String> = positions().map(|(position, _)| position.to_string()).collect();
        let accepted: Vec<_> =
            positions().map(|(position, counts)| (names[position].as_str(), counts.1)).collect();
        let verified: Vec<_> =
            positions().map(|(position, counts)| (names[position].as_str(), counts.0)).collect();
        self.counters(
            "vllm:spec_decode_num_accepted_tokens_per_pos_total",
            "Drafts of the drafter accepted, by their position in a window.",
            "position",
            &accepted,
        );
        self.counters(
            &format!("{OWN}verified_drafts_by_position_total"),
            "Drafts of the drafter verified, by their position in a window.",
            "position",
            &verified,
        );
        self.counter(&format!("{OWN}copies_total"), "Copied tokens verified as drafts.", totals.copies);
        self.counter(
            &format!("{OWN}copies_accepted_total"),
            "Copied tokens accepted.",
            totals.copies_accepted,
        );
        self.counter(
            &format!("{OWN}forced_tokens_total"),
            "Tokens that a grammar forced, verified as drafts.",
            totals.forced,
        );
        self.counter(
            &format!("{OWN}forced_tokens_accepted_total"),
            "Forced tokens accepted.",
            totals.forced_accepted,
        );
    }

    fn rounds(&mut self, totals: &Totals) {
        let other = totals.rounds.saturating_sub(totals.plain_rounds + totals.drafted_rounds);
        self.counters(
            &format!("{OWN}rounds_total"),
            "Rounds: replies moved without drafts, with drafts, or only prompts were read.",
            "kind",
            &[("plain", totals.plain_rounds), ("drafted", totals.drafted_rounds), ("prompt", other)],
        );
        self.counter(
            &format!("{OWN}copied_rounds_total"),
            "Rounds with drafts among which were copies.",
            totals.copied_rounds,
        );
        self.counter(
            &format!("{OWN}guarded_rounds_total"),
            "Plain rounds that a guard kept so, although a lane could have drafted.",
            totals.guarded_rounds,
        );
        self.counter(&format!("{OWN}failed_rounds_total"), "Rounds that failed.", totals.failed_rounds);
        self.counter(&format!("{OWN}rows_total"), "Rows of all rounds.", totals.rows);
        let name = format!("{OWN}round_gap_seconds_total");
        let gap = totals.round_gap.as_secs_f64();
        self.page.single(
            &name,
            Kind::Counter,
            "Host time between two rounds.",
            &[("model_name", self.model)],
            gap,
        );
        self.counter(&format!("{OWN}round_gaps_total"), "How many gaps that is.", totals.round_gaps);
    }

    fn requests(&mut self, totals: &Totals) {
        self.counters(
            &format!("{OWN}sequences_total"),
            "Sequences that have ended.",
            "outcome",
            &[("finished", totals.finished), ("cancelled", totals.cancelled), ("failed", totals.failed)],
        );
    }

    /// One sample for each kind of round that a guard has seen.
    fn guards(&mut self, guards: &[GuardState]) {
        let labelled: Vec<_> = guards
            .iter()
            .map(|guard| (guard.lanes.0.to_string(), guard.context_least.to_string(), guard))
            .collect();
        let name = format!("{OWN}guard_drafts");
        self.page.family(&name, Kind::Gauge, "Whether a guard lets such rounds draft: 1 or 0.");
        for (lanes, context, guard) in &labelled {
            let labels = [("model_name", self.model), ("lanes_from", lanes), ("context_from", context)];
            self.page.sample(&name, &labels, u8::from(guard.rests_on == Side::Drafted));
        }
        let name = format!("{OWN}guard_token_ms");
        self.page.family(&name, Kind::Gauge, "Milliseconds a token, as a guard has measured them.");
        for (lanes, context, guard) in &labelled {
            for (side, record) in [("plain", guard.plain), ("drafted", guard.drafted)] {
                let labels = [
                    ("model_name", self.model),
                    ("lanes_from", lanes),
                    ("context_from", context),
                    ("side", side),
                ];
                if record.rounds > 0 {
                    self.page.sample(&name, &labels, record.token_ms());
                }
            }
        }
    }

    fn replies(&mut self, replies: &ReplyMetrics) {
        let [stop, length, tool_calls] = replies.endings;
        self.counters(
            "vllm:request_success_total",
            "Replies that are whole.",
            "finished_reason",
            &[("stop", stop), ("length", length), ("tool_calls", tool_calls)],
        );
        let off: Vec<_> = replies.draft_off.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        self.counters(
            &format!("{OWN}draft_off_total"),
            "Replies that, or whose ends, ran without drafts, by the reason.",
            "reason",
            &off,
        );
        let (page, model) = (&mut self.page, self.model);
        let first = "Seconds from submission to the first token.";
        replies.first_token.write(page, "vllm:time_to_first_token_seconds", first, model);
        let token = "Seconds a token after the first, the average of each reply.";
        replies.per_token.write(page, "vllm:time_per_output_token_seconds", token, model);
        let whole = "Seconds from submission to the last token.";
        replies.whole.write(page, "vllm:e2e_request_latency_seconds", whole, model);
    }
}
