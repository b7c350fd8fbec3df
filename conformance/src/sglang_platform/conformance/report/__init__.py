"""Reports: one JSON document per run, with a published schema, and what is made from it.

document  the document      environment  versions of everything      files  reading, writing, checking
page      one HTML page     compare      two reports                 support_table  the hardware page
report.schema.json, page.html.jinja
"""
