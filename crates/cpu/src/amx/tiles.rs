//! The tile registers: whether this process may use them, their shape, and what is done with them.
//!
//! Rust has no stable names for these instructions, so they are written as assembly. The compiler puts nothing in
//! tile registers, so that what one block of assembly leaves there the next one finds.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::cell::Cell;
use std::sync::OnceLock;

/// Rows of a tile, and 32-bit words of a row.
pub(super) const SIDE: usize = 16;

thread_local! {
    static IS_CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the processor multiplies tiles of bf16 and the system lets this process keep them.
pub(crate) fn are_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let features = __cpuid_count(7, 0).edx;
        let (bf16_products, tiles) = (1 << 22, 1 << 24);
        features & bf16_products != 0 && features & tiles != 0 && is_permitted()
    })
}

/// Asks Linux for the tile registers, which it gives to those that ask, and to their threads.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: usize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let result: isize;
    // SAFETY: the call reads and writes no memory of this process; the kernel overwrites rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row of each tile.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Gives this thread's tiles their shape, once: 16 rows of 64 bytes, whatever is multiplied.
///
/// # Safety
/// The tiles are available.
pub(super) unsafe fn configure() {
    if IS_CONFIGURED.replace(true) {
        return;
    }
    let mut configuration =
        Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    configuration.row_bytes[..8].fill(4 * SIDE as u16);
    configuration.rows[..8].fill(SIDE as u8);
    // SAFETY: the caller's promise; the configuration is a valid one of palette 1.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack)) }
}

/// Where a tile's first row is in memory, and the bytes to the next one.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) start: *const u8,
    pub(super) stride: usize,
}

impl Place {
    /// `bytes` further on.
    ///
    /// # Safety
    /// As for `add` of a pointer.
    #[inline(always)]
    pub(super) unsafe fn after(self, bytes: usize) -> Place {
        // SAFETY: the caller's promise.
        Place { start: unsafe { self.start.add(bytes) }, ..self }
    }
}

/// A block of `O` by `R` tiles of sums: `sums[o][r] = left[o] · right[r]`.
///
/// Sums are in the registers 0 to 3, left operands in 4 and 5, right operands in 6 and 7.
///
/// # Safety
/// The tiles are configured.
#[inline(always)]
pub(super) unsafe fn clear<const O: usize, const R: usize>() {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("tilezero tmm0", out("tmm0") _, options(nostack));
        if R == 2 {
            asm!("tilezero tmm1", out("tmm1") _, options(nostack));
        }
        if O == 2 {
            asm!("tilezero tmm2", out("tmm2") _, options(nostack));
        }
        if O == 2 && R == 2 {
            asm!("tilezero tmm3", out("tmm3") _, options(nostack));
        }
    }
}

/// Adds the products of 32 columns: first those of the even columns and those of the odd ones, one after another
/// in fp32, then both to the sum.
///
/// # Safety
/// The tiles are configured, and 16 rows of 64 bytes are at each place.
#[inline(always)]
pub(super) unsafe fn add_products<const O: usize, const R: usize>(left: [Place; O], right: [Place; R]) {
    // SAFETY: the caller's promise.
    unsafe {
        load_left_0(left[0]);
        load_right_0(right[0]);
        asm!("tdpbf16ps tmm0, tmm4, tmm6", out("tmm0") _, options(nostack));
        if R == 2 {
            load_right_1(right[R - 1]);
            asm!("tdpbf16ps tmm1, tmm4, tmm7", out("tmm1") _, options(nostack));
        }
        if O == 2 {
            load_left_1(left[O - 1]);
            asm!("tdpbf16ps tmm2, tmm5, tmm6", out("tmm2") _, options(nostack));
        }
        if O == 2 && R == 2 {
            asm!("tdpbf16ps tmm3, tmm5, tmm7", out("tmm3") _, options(nostack));
        }
    }
}

/// Writes `sums[o][r]` as 16 rows of 16 values.
///
/// # Safety
/// The tiles are configured, and there is room for the 16 rows, `stride` bytes apart.
#[inline(always)]
pub(super) unsafe fn store<const SUM: usize>(start: *mut f32, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match SUM {
            0 => asm!("tilestored [{} + {} * 1], tmm0", in(reg) start, in(reg) stride, options(nostack)),
            1 => asm!("tilestored [{} + {} * 1], tmm1", in(reg) start, in(reg) stride, options(nostack)),
            2 => asm!("tilestored [{} + {} * 1], tmm2", in(reg) start, in(reg) stride, options(nostack)),
            _ => asm!("tilestored [{} + {} * 1], tmm3", in(reg) start, in(reg) stride, options(nostack)),
        }
    }
}

/// Writes functions that load one register.
macro_rules! loads {
    ($($name:ident: $register:tt)*) => {$(
        /// # Safety
        /// As for `add_products`.
        #[inline(always)]
        unsafe fn $name(place: Place) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    concat!("tileloadd ", $register, ", [{} + {} * 1]"),
                    in(reg) place.start,
                    in(reg) place.stride,
                    out($register) _,
                    options(nostack, readonly),
                );
            }
        }
    )*};
}
loads! { load_left_0: "tmm4" load_left_1: "tmm5" load_right_0: "tmm6" load_right_1: "tmm7" }
