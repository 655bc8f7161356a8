//! Compute shaders as SPIR-V words, different for each number.

/// How large the shaders are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Steps that run.
    pub(crate) steps: usize,
    /// Steps that do not: the driver reads them and makes no code of them.
    pub(crate) idle: usize,
    pub(crate) form: Form,
}

/// Why idle steps are there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// In functions that nothing calls, as in shaders that include libraries: compilers of shading
    /// languages leave them in.
    Uncalled,
    /// Behind a specialization constant that is off, as in shaders written for many cases.
    Switched,
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uncalled" => Ok(Self::Uncalled),
            "switched" => Ok(Self::Switched),
            other => Err(format!("{other} is neither uncalled nor switched")),
        }
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Uncalled => "uncalled",
            Self::Switched => "switched",
        })
    }
}

/// Steps of one function that nothing calls.
const FUNCTION_STEPS: usize = 100;

/// The words of shader `n`: steps of arithmetic on one float of a storage buffer, in an order and
/// with constants that only this number has.
pub(crate) fn shader(n: u64, size: Size) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(0x70_77_00 + n);
    let mut words = Words(vec![0x0723_0203, 0x0001_0000, 0, 0, 0]);
    preamble(&mut words);
    // A pool of constants; ids follow on those of the preamble.
    let constants: Vec<u32> = (0..16).map(|i| FIRST_FREE + i).collect();
    for id in &constants {
        let value = 0.5 + random.f32();
        words.op(43, &[FLOAT, *id, value.to_bits()]);
    }
    let mut id = Ids(FIRST_FREE + 16);
    words.op(54, &[VOID, MAIN, 0, FUNCTION]);
    words.op(248, &[id.next()]);
    let (index_at, index, at) = (id.next(), id.next(), id.next());
    words.op(65, &[POINTER_IN_UINT, index_at, GLOBAL_ID, ZERO]);
    words.op(61, &[UINT, index, index_at]);
    words.op(65, &[POINTER_FLOAT, at, BUFFER, ZERO, index]);
    let first = id.next();
    words.op(61, &[FLOAT, first, at]);
    let x = chain(
        &mut words,
        &mut id,
        &mut random,
        &constants,
        first,
        size.steps,
    );
    words.op(62, &[at, x]);
    if size.idle > 0 && size.form == Form::Switched {
        let (idle, merge) = (id.next(), id.next());
        words.op(247, &[merge, 0]);
        words.op(250, &[SWITCH, idle, merge]);
        words.op(248, &[idle]);
        let y = chain(&mut words, &mut id, &mut random, &constants, x, size.idle);
        words.op(62, &[at, y]);
        words.op(249, &[merge]);
        words.op(248, &[merge]);
    }
    words.op(253, &[]);
    words.op(56, &[]);
    if size.form == Form::Uncalled {
        for _ in 0..size.idle / FUNCTION_STEPS {
            let (function, x) = (id.next(), id.next());
            words.op(54, &[FLOAT, function, 0, FLOAT_FUNCTION]);
            words.op(55, &[FLOAT, x]);
            words.op(248, &[id.next()]);
            let steps = FUNCTION_STEPS;
            let y = chain(&mut words, &mut id, &mut random, &constants, x, steps);
            words.op(254, &[y]);
            words.op(56, &[]);
        }
    }
    if let Some(bound) = words.0.get_mut(3) {
        *bound = id.next();
    }
    words.0
}

/// Gives out result ids.
struct Ids(u32);

impl Ids {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// Steps of arithmetic from `first` on; gives the id of the last result.
fn chain(
    words: &mut Words,
    id: &mut Ids,
    random: &mut fastrand::Rng,
    constants: &[u32],
    first: u32,
    steps: usize,
) -> u32 {
    let (mut x, mut y) = (first, first);
    for _ in 0..steps {
        let constant = random.choice(constants).copied().unwrap_or(ZERO);
        let result = id.next();
        match random.u8(0..6) {
            0 => words.op(133, &[FLOAT, result, x, constant]),
            1 => words.op(129, &[FLOAT, result, x, y]),
            2 => words.op(131, &[FLOAT, result, y, x]),
            // GLSL.std.450: FAbs 4, Sin 13, FMin 37.
            3 => words.op(12, &[FLOAT, result, GLSL, 4, x]),
            4 => words.op(12, &[FLOAT, result, GLSL, 13, x]),
            _ => words.op(12, &[FLOAT, result, GLSL, 37, x, constant]),
        }
        y = x;
        x = result;
    }
    x
}

const MAIN: u32 = 1;
const GLOBAL_ID: u32 = 2;
const GLSL: u32 = 3;
const VOID: u32 = 4;
const FUNCTION: u32 = 5;
const UINT: u32 = 6;
const FLOAT: u32 = 7;
const UINT3: u32 = 8;
const POINTER_IN_UINT3: u32 = 9;
const POINTER_IN_UINT: u32 = 10;
const ARRAY: u32 = 11;
const BLOCK: u32 = 12;
const POINTER_BLOCK: u32 = 13;
const POINTER_FLOAT: u32 = 14;
const BUFFER: u32 = 15;
const ZERO: u32 = 16;
const BOOL: u32 = 17;
const SWITCH: u32 = 18;
const FLOAT_FUNCTION: u32 = 19;
const FIRST_FREE: u32 = 20;

struct Words(Vec<u32>);

impl Words {
    fn op(&mut self, code: u32, operands: &[u32]) {
        let count = u32::try_from(operands.len() + 1).unwrap_or(1);
        self.0.push(count << 16 | code);
        self.0.extend_from_slice(operands);
    }
}

/// A short text as words: bytes in order, ended by zero.
fn text(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap_or_default());
    bytes.chunks_exact(4).map(word).collect()
}

/// Everything before the function: capability, entry point, decorations, types, variables.
fn preamble(words: &mut Words) {
    words.op(17, &[1]);
    words.op(11, &[&[GLSL], text("GLSL.std.450").as_slice()].concat());
    words.op(14, &[0, 1]);
    let entry = [&[5, MAIN], text("main").as_slice(), &[GLOBAL_ID]].concat();
    words.op(15, &entry);
    words.op(16, &[MAIN, 17, 64, 1, 1]);
    words.op(71, &[ARRAY, 6, 4]);
    words.op(71, &[BLOCK, 3]);
    words.op(72, &[BLOCK, 0, 35, 0]);
    words.op(71, &[BUFFER, 34, 0]);
    words.op(71, &[BUFFER, 33, 0]);
    words.op(71, &[GLOBAL_ID, 11, 28]);
    words.op(71, &[SWITCH, 1, 0]);
    words.op(19, &[VOID]);
    words.op(33, &[FUNCTION, VOID]);
    words.op(21, &[UINT, 32, 0]);
    words.op(22, &[FLOAT, 32]);
    words.op(23, &[UINT3, UINT, 3]);
    words.op(32, &[POINTER_IN_UINT3, 1, UINT3]);
    words.op(32, &[POINTER_IN_UINT, 1, UINT]);
    words.op(29, &[ARRAY, FLOAT]);
    words.op(30, &[BLOCK, ARRAY]);
    words.op(32, &[POINTER_BLOCK, 2, BLOCK]);
    words.op(32, &[POINTER_FLOAT, 2, FLOAT]);
    words.op(59, &[POINTER_IN_UINT3, GLOBAL_ID, 1]);
    words.op(59, &[POINTER_BLOCK, BUFFER, 2]);
    words.op(43, &[UINT, ZERO, 0]);
    words.op(33, &[FLOAT_FUNCTION, FLOAT, FLOAT]);
    words.op(20, &[BOOL]);
    words.op(49, &[BOOL, SWITCH]);
}
