//! What is grown has the sizes it says, computes what its base computes, and mistakes in it are seen.

mod calibration;
mod damage;
mod function;
mod picks;
mod sizes;
mod stored;
mod support;
