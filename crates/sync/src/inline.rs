//! A list that holds its first elements in place.

/// Up to `N` elements without an allocation; beyond that all of them on the heap.
#[derive(Debug)]
pub(crate) struct Inline<T, const N: usize> {
    here: [T; N],
    used: usize,
    spilled: Vec<T>,
}

impl<T: Copy, const N: usize> Inline<T, N> {
    /// An empty list; `filler` is never seen.
    pub(crate) fn new(filler: T) -> Self {
        Self {
            here: [filler; N],
            used: 0,
            spilled: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, element: T) {
        if self.spilled.is_empty() {
            if let Some(slot) = self.here.get_mut(self.used) {
                *slot = element;
                self.used += 1;
                return;
            }
            self.spilled.extend_from_slice(&self.here);
        }
        self.spilled.push(element);
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.spilled.clear();
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        if self.spilled.is_empty() {
            self.here.get(..self.used).unwrap_or_default()
        } else {
            &self.spilled
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.spilled.is_empty() {
            self.here.get_mut(..self.used).unwrap_or_default()
        } else {
            &mut self.spilled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Inline;

    #[test]
    fn elements_keep_their_order_when_they_spill() {
        let mut list = Inline::<u32, 4>::new(0);
        for element in 0..10 {
            list.push(element);
            let expected: Vec<u32> = (0..=element).collect();
            assert_eq!(list.as_slice(), expected);
        }
        list.clear();
        assert!(list.as_slice().is_empty());
    }
}
