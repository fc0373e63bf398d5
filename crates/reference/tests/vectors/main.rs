//! Holds the reference to vectors that others computed: the demo pair's golden ones, and transformers'.

mod compare;
mod golden;
mod transformers;
