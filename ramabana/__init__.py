__version__ = "0.1.0"

# Names load on first use, so that `import ramabana` costs nothing but this file.
_LAZY = {'Hit': 'core', 'AgentError': 'core', 'Vault': 'memory', 'LocalHost': 'host', 'VaultHost': 'vault',
         'WorkspaceHost': 'vault', 'Agent': 'agent'}
__all__ = list(_LAZY)

def __getattr__(name):
    if name not in _LAZY: raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from importlib import import_module
    return getattr(import_module(f'{__name__}.{_LAZY[name]}'), name)

def __dir__(): return sorted([*globals(), *__all__])
