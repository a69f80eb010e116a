"""Coaty joined to the mesh: a node becomes an agent of a namespace and carries events over, both ways (COA-12).

- In: events of the namespace appear on ``coaty.<namespace>.<event>[.<filter>]``, payload as it was.
- Out: what others publish there reaches the agents; what agents of one island said reaches those of other islands.
- Questions of mesh clients get their answers, by correlation id; so do those of agents that mesh clients answer.
- ``coaty.<namespace>.objects`` is compacted: all objects that were advertised and not deadvertised, by object id.
- Several nodes may be bridges to one namespace: ``sharing`` says who carries over what, ``memory`` what was carried
  over already.
- ``learning`` says to which topics to listen: those that agents announce, here and at other bridges.
"""
