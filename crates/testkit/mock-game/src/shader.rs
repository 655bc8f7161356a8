//! Valid SPIR-V, as many different compute shaders as wanted, with no compiler at hand.
//!
//! Each reads a number from a storage buffer, runs it through multiplications and additions whose
//! constants come from the seed, and writes it back: small, different, and not foldable.

/// Id numbers of the module's fixed part.
mod id {
    pub(super) const VOID: u32 = 1;
    pub(super) const FUNCTION: u32 = 2;
    pub(super) const UINT: u32 = 3;
    pub(super) const ARRAY: u32 = 4;
    pub(super) const BLOCK: u32 = 5;
    pub(super) const BLOCK_POINTER: u32 = 6;
    pub(super) const UINT_POINTER: u32 = 7;
    pub(super) const BUFFER: u32 = 8;
    pub(super) const ZERO: u32 = 9;
    pub(super) const MAIN: u32 = 10;
    pub(super) const LABEL: u32 = 11;
    pub(super) const ELEMENT: u32 = 12;
    pub(super) const LOADED: u32 = 13;
    pub(super) const FREE: u32 = 14;
}

#[derive(Default)]
struct Module(Vec<u32>);

impl Module {
    fn op(&mut self, code: u32, operands: &[u32]) {
        let words = u32::try_from(operands.len() + 1).unwrap_or(0);
        self.0.push((words << 16) | code);
        self.0.extend_from_slice(operands);
    }
}

/// The code of shader number `seed`, with `steps` pairs of operations.
#[must_use]
pub fn compute(seed: u64, steps: u32) -> Vec<u32> {
    let mut module = Module::default();
    let bound = id::FREE + 4 * steps;
    module
        .0
        .extend_from_slice(&[0x0723_0203, 0x0001_0000, 0, bound, 0]);
    module.op(17, &[1]); // OpCapability Shader
    module.op(14, &[0, 1]); // OpMemoryModel Logical GLSL450
    let main = [u32::from_le_bytes(*b"main"), 0];
    module.op(15, &[5, id::MAIN, main[0], main[1]]); // OpEntryPoint GLCompute
    module.op(16, &[id::MAIN, 17, 1, 1, 1]); // OpExecutionMode LocalSize
    module.op(71, &[id::ARRAY, 6, 4]); // OpDecorate ArrayStride
    module.op(71, &[id::BLOCK, 3]); // BufferBlock
    module.op(72, &[id::BLOCK, 0, 35, 0]); // OpMemberDecorate Offset
    module.op(71, &[id::BUFFER, 34, 0]); // DescriptorSet
    module.op(71, &[id::BUFFER, 33, 0]); // Binding
    module.op(19, &[id::VOID]);
    module.op(33, &[id::FUNCTION, id::VOID]);
    module.op(21, &[id::UINT, 32, 0]);
    module.op(29, &[id::ARRAY, id::UINT]);
    module.op(30, &[id::BLOCK, id::ARRAY]);
    module.op(32, &[id::BLOCK_POINTER, 2, id::BLOCK]); // Uniform, as BufferBlock wants it
    module.op(32, &[id::UINT_POINTER, 2, id::UINT]);
    module.op(59, &[id::BLOCK_POINTER, id::BUFFER, 2]);
    module.op(43, &[id::UINT, id::ZERO, 0]);
    constants(&mut module, seed, steps);
    module.op(54, &[id::VOID, id::MAIN, 0, id::FUNCTION]);
    module.op(248, &[id::LABEL]);
    module.op(
        65,
        &[
            id::UINT_POINTER,
            id::ELEMENT,
            id::BUFFER,
            id::ZERO,
            id::ZERO,
        ],
    );
    module.op(61, &[id::UINT, id::LOADED, id::ELEMENT]);
    let mut value = id::LOADED;
    for step in 0..steps {
        let [factor, term] = constant_ids(step);
        let product = id::FREE + 2 * steps + 2 * step;
        module.op(132, &[id::UINT, product, value, factor]); // OpIMul
        module.op(128, &[id::UINT, product + 1, product, term]); // OpIAdd
        value = product + 1;
    }
    module.op(62, &[id::ELEMENT, value]); // OpStore
    module.op(253, &[]);
    module.op(56, &[]);
    module.0
}

const fn constant_ids(step: u32) -> [u32; 2] {
    [id::FREE + 2 * step, id::FREE + 2 * step + 1]
}

fn constants(module: &mut Module, seed: u64, steps: u32) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    for step in 0..steps {
        for constant in constant_ids(step) {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(seed | 1);
            let value = u32::try_from(state >> 33).unwrap_or(0);
            module.op(43, &[id::UINT, constant, value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use towpath_needs::{Need, can_run};

    #[test]
    fn shaders_differ_by_seed_and_are_the_same_again() {
        let all: BTreeSet<_> = (0..1000).map(|seed| compute(seed, 4)).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.contains(&compute(7, 4)));
    }

    #[test]
    fn spirv_tools_accept_the_code() {
        if !can_run(&[Need::SpirvTools]) {
            return;
        }
        let path = std::env::temp_dir().join(format!("towpath-{}.spv", std::process::id()));
        let code: Vec<u8> = compute(1, 8)
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        std::fs::write(&path, code).unwrap();
        let run = std::process::Command::new("spirv-val").arg(&path).output();
        std::fs::remove_file(&path).unwrap();
        let run = run.unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{said}");
    }
}
