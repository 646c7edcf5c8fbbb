"""Spaces of choices for tuning: what may be chosen, and what was."""
from collections import OrderedDict

__all__ = ["OtherOptionEntity", "OtherOptionSpace", "ConfigSpace", "ConfigSpaces"]


class OtherOptionEntity:
    """One choice."""

    def __init__(self, val):
        self.val = val

    def __repr__(self):
        return str(self.val)

    @classmethod
    def from_tvm(cls, x):
        """The same choice of another library's entity."""
        return cls(x.val)


class OtherOptionSpace:
    """A list of choices."""

    def __init__(self, entities):
        self.entities = [x if isinstance(x, OtherOptionEntity) else OtherOptionEntity(x) for x in entities]

    @classmethod
    def from_tvm(cls, x):
        """The same list of another library's space."""
        return cls([entity.val for entity in x.entities])

    def __len__(self):
        return len(self.entities)

    def __repr__(self):
        return f"OtherOption({self.entities}) len={len(self)}"


class ConfigSpace:
    """Lists of choices by name, and the choice of each."""

    def __init__(self, space_map=None, _entity_map=None):
        self.space_map = space_map or OrderedDict()
        self._entity_map = _entity_map or OrderedDict()

    @classmethod
    def from_tvm(cls, x):
        """The same space of another library's."""
        return cls(OrderedDict((name, OtherOptionSpace.from_tvm(space)) for name, space in x.space_map.items()),
                   OrderedDict((name, OtherOptionEntity.from_tvm(entity)) for name, entity in x._entity_map.items()))

    def __len__(self):
        total = 1
        for space in self.space_map.values():
            total *= len(space)
        return total

    def __repr__(self):
        return f"ConfigSpace (len={len(self)}, space_map={dict(self.space_map)})"


class ConfigSpaces:
    """Spaces by name."""

    def __init__(self):
        self.spaces = {}

    def __setitem__(self, name, space):
        self.spaces[name] = space

    def __len__(self):
        return len(self.spaces)

    def __repr__(self):
        return f"ConfigSpaces {self.spaces}"
